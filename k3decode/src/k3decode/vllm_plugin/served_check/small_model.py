"""A text-only K3 of one rank's widths for the check: its folder, and weights from a seed.

Weights go through the engine's own loading under a checkpoint's names, so that the path takes them
as it would take a checkpoint's.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from k3decode.decode.packing import ExpertBytes
from k3decode.decode.random_weights import random_layer
from k3decode.decode.shard import shard_dims
from k3decode.dims import K3Dims
from k3decode.layer_bench.stock_model import stock_config, write_stock_model
from k3decode.model.parameters import parameter_shapes

__all__ = ["LOUD_TOKENS", "check_dims", "seeded_tensors", "write_check_model"]

LOUD_TOKENS = (0, 1)
"""Rows of the LM head that are opposite and large, so that one of them is nearly always chosen."""

_LOUDNESS = 16.0
_MATRIX_SCALE = 0.02
_CONFIG = "config.json"


def check_dims(ranks: int, layers: int) -> K3Dims:
    """Widths of one of so many ranks, of a model of so many layers whose last one is MLA."""
    return replace(shard_dims(K3Dims(), ranks), num_hidden_layers=layers)


def write_check_model(folder: Path, dims: K3Dims, *, longest: int) -> None:
    """Write a model folder without weights and tokenizer.

    Args:
        folder: made if it is missing.
        dims: widths of the rank, with the number of layers.
        longest: most tokens of a request.
    """
    layers = dims.num_hidden_layers
    write_stock_model(folder, dims, layers=layers, longest=longest)
    config = stock_config(dims, layers=layers, longest=longest)
    mla = [number for number in range(layers) if dims.is_mla(number)]
    # As in K3 itself, and not only every fourth layer, the last layer is MLA.
    config["linear_attn_config"] |= {
        "kda_layers": [number + 1 for number in range(layers) if number not in mla],
        "full_attn_layers": [number + 1 for number in mla],
    }
    (folder / _CONFIG).write_text(json.dumps(config, indent=1) + "\n")


def seeded_tensors(dims: K3Dims, seed: int, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """All tensors under a checkpoint's names; equal seeds give equal ones on a kind of device."""
    generator = torch.Generator(device).manual_seed(1000 * seed + 998)
    for name, shape in parameter_shapes(dims).items():
        if ".layers." not in name:
            yield name, _end(name, torch.randn(*shape, generator=generator, device=device))
    for number in range(dims.num_hidden_layers):
        prefix = f"model.layers.{number}."
        tensors, experts = random_layer(dims, number, seed, device)
        for name, tensor in tensors.items():
            yield prefix + name, tensor
        if experts is not None:
            yield from _experts(f"{prefix}block_sparse_moe.experts.", experts)


def _end(name: str, values: Tensor) -> Tensor:
    if name.endswith("norm.weight"):
        values = 1.0 + 0.1 * values
    elif name != "model.embed_tokens.weight":
        values = _MATRIX_SCALE * values
    if name == "lm_head.weight":
        first, second = LOUD_TOKENS
        values[first] *= _LOUDNESS
        values[second] = -values[first]
    return values.to(torch.bfloat16)


def _experts(prefix: str, experts: ExpertBytes) -> Iterator[tuple[str, Tensor]]:
    inner = experts.w13.shape[1] // 2
    for number in range(experts.w13.shape[0]):
        parts = {
            "w1": (experts.w13[number, :inner], experts.w13_scales[number, :inner]),
            "w3": (experts.w13[number, inner:], experts.w13_scales[number, inner:]),
            "w2": (experts.w2[number], experts.w2_scales[number]),
        }
        for name, (packed, scales) in parts.items():
            yield f"{prefix}{number}.{name}.weight_packed", packed
            yield f"{prefix}{number}.{name}.weight_scale", scales
