import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from k3decode.dims import tiny
from k3decode.model.parameters import parameter_shapes
from k3decode.tiny_checkpoint import tiny_tensors, write_tiny_checkpoint
from k3decode.tiny_tokenizer import SPECIAL_TOKENS, tokenizer_json


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path / "here", seed=0)
    command = [sys.executable, "-m", "k3decode.tiny_checkpoint", str(tmp_path / "there")]
    subprocess.run([*command, "--seed", "0"], check=True)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_another_seed_gives_other_weights_and_the_same_tokenizer(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path / "zero", seed=0)
    write_tiny_checkpoint(tmp_path / "one", seed=1)
    zero, one = contents(tmp_path / "zero"), contents(tmp_path / "one")
    assert {name for name in zero if zero[name] != one[name]} == {"model.safetensors"}


def test_weights_have_the_names_and_shapes_of_the_model(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, seed=0)
    tensors = load_file(tmp_path / "model.safetensors")
    assert {name: tuple(t.shape) for name, t in tensors.items()} == parameter_shapes(tiny())
    assert all(t.dtype == torch.float32 and bool(t.isfinite().all()) for t in tensors.values())


def test_known_weights_of_seed_zero() -> None:
    # Exact by construction; a change here is a change of every recorded result.
    first = tiny_tensors(tiny(), 0)["model.embed_tokens.weight"].flatten()[:3]
    assert first.tolist() == [-0.014973640441894531, 1.0728871822357178, -1.6460902690887451]


def test_config_names_the_model_and_its_dims(tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, seed=0)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["model_type"] == "k3tiny"
    assert config["architectures"] == ["K3TinyForCausalLM"]
    assert type(tiny())(**config["k3_dims"]) == tiny()


@pytest.mark.parametrize(
    "text", ["the water and the mountain", 'Größe 数学 🙂\n\t{}[]"', "", "\x00\xff  double"]
)
def test_any_text_survives_the_tokenizer(text: str) -> None:
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json(1024)))
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids) == text
    assert all(number >= len(SPECIAL_TOKENS) for number in encoded.ids)


def test_tokenizer_fills_its_vocabulary_and_merges_words() -> None:
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json(1024)))
    assert tokenizer.get_vocab_size() == 1024
    assert len(tokenizer.encode(" the water under the mountain").ids) < 14
    assert tokenizer.encode("<|end|>").ids == [2]


@pytest.mark.parametrize(("size", "why"), [(100, "at least"), (100_000, "word list")])
def test_impossible_vocabularies_are_refused(size: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        tokenizer_json(size)
