"""Write a small random K3 checkpoint: `python -m k3decode.tiny_checkpoint OUTPUT_DIR --seed 0`.

Weights are uniform, made from integers of a seeded generator by exact arithmetic: no transcendental
function whose last bit depends on the processor, so the bytes are the same on every machine.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from k3decode.dims import K3Dims, tiny
from k3decode.model.parameters import parameter_shapes
from k3decode.tiny_tokenizer import (
    CHAT_TEMPLATE,
    END,
    PAD,
    SPECIAL_TOKENS,
    START,
    tokenizer_json,
)

__all__ = ["main", "tiny_tensors", "write_tiny_checkpoint"]

_STEPS = 1 << 23

# Half-widths of the uniform draws that are not scaled by fan-in. Logits come out a few units apart,
# so greedy text is varied and a rounding difference cannot change it.
_HALF_WIDTHS = {"embed_tokens": 2.0, "conv1d": 1.0, "e_score_correction_bias": 0.125, "A_log": 0.5}
_LM_HEAD_GAIN = 5.0
_LINEAR_GAIN = 2.0
_NORM_HALF_WIDTH = 0.25
# Decay biases in [-8, 0]: memories of a few tokens up to a few hundred.
_DT_BIAS = (-4.0, 4.0)


def _uniform(shape: tuple[int, ...], half_width: float, generator: torch.Generator) -> Tensor:
    """Uniform fp32 in [-half_width, half_width), exact for every half-width on its own."""
    steps = torch.randint(-_STEPS, _STEPS, shape, generator=generator, dtype=torch.int64)
    return steps.to(torch.float32) * (half_width / _STEPS)


def _draw(name: str, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    for part, half_width in _HALF_WIDTHS.items():
        if part in name:
            return _uniform(shape, half_width, generator)
    if "dt_bias" in name:
        return _DT_BIAS[0] + _uniform(shape, _DT_BIAS[1], generator)
    if len(shape) == 1:
        return 1.0 + _uniform(shape, _NORM_HALF_WIDTH, generator)
    gain = _LM_HEAD_GAIN if "lm_head" in name else _LINEAR_GAIN
    return _uniform(shape, gain / shape[-1] ** 0.5, generator)


def tiny_tensors(dims: K3Dims, seed: int) -> dict[str, Tensor]:
    """Every tensor of a random checkpoint, fp32, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return {name: _draw(name, shape, generator) for name, shape in parameter_shapes(dims).items()}


def _config(dims: K3Dims) -> dict[str, object]:
    ids = {text: number for number, text in enumerate(SPECIAL_TOKENS)}
    return {
        "architectures": ["K3TinyForCausalLM"],
        "model_type": "k3tiny",
        "dtype": "float32",
        "hidden_size": dims.hidden_size,
        "num_hidden_layers": dims.num_hidden_layers,
        "num_attention_heads": dims.num_attention_heads,
        "num_key_value_heads": dims.num_attention_heads,
        "head_dim": dims.qk_head_dim,
        "vocab_size": dims.vocab_size,
        "max_position_embeddings": dims.max_position_embeddings,
        "tie_word_embeddings": False,
        "bos_token_id": ids[START],
        "eos_token_id": ids[END],
        "pad_token_id": ids[PAD],
        "k3_dims": dataclasses.asdict(dims),
    }


def _tokenizer_config(dims: K3Dims) -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": dims.max_position_embeddings,
    }


def _write_json(path: Path, content: dict[str, object]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def write_tiny_checkpoint(folder: Path, seed: int) -> None:
    """Write config, tokenizer, chat template, generation config and weights into `folder`.

    Files of the same names are replaced; others are left alone.
    """
    dims = tiny()
    config = _config(dims)
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", config)
    ids = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(folder / "generation_config.json", ids)
    _write_json(folder / "tokenizer.json", tokenizer_json(dims.vocab_size))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(dims))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    weights = folder / "model.safetensors"
    save_file(tiny_tensors(dims, seed), weights, metadata={"format": "pt"})
    # The library writes a file only its owner can read; a server may run as somebody else.
    weights.chmod(0o644)


def main(arguments: list[str] | None = None) -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.tiny_checkpoint", description=__doc__)
    parser.add_argument("output", type=Path, help="folder to write; made when absent")
    parser.add_argument("--seed", type=int, default=0, help="seed of the weights (default 0)")
    chosen = parser.parse_args(arguments)
    write_tiny_checkpoint(chosen.output, chosen.seed)


if __name__ == "__main__":
    main()
