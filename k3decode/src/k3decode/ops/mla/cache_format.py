"""Formats of the latent cache: their names, how torch holds them, and which scales they take."""

from typing import Literal

import torch

from k3decode.host.inputs import InputCheck

__all__ = ["CACHE_DTYPES", "CacheFormat", "cache_format_named", "check_scale", "element_bytes"]

CacheFormat = Literal["bf16", "e4m3"]
"""BF16, or FP8 E4M3 as bytes."""

CACHE_DTYPES: dict[CacheFormat, torch.dtype] = {"bf16": torch.bfloat16, "e4m3": torch.uint8}
"""How torch holds a format."""


def cache_format_named(name: str) -> CacheFormat:
    """Find a format.

    Raises:
        ValueError: no format has this name.
    """
    for known in CACHE_DTYPES:
        if known == name:
            return known
    raise ValueError(f"expected a cache of {' or '.join(CACHE_DTYPES)}, found '{name}'")


def element_bytes(cache_format: CacheFormat) -> int:
    """Bytes of one column."""
    size: int = CACHE_DTYPES[cache_format].itemsize
    return size


def check_scale(check: InputCheck, name: str, scale: float, cache_format: CacheFormat) -> None:
    """Note a scale that a format does not take: BF16 has none."""
    check.require(
        scale == 1.0 if cache_format == "bf16" else scale > 0.0,
        f"{name}: expected 1 for BF16 and more than 0 for E4M3, found {scale}",
    )
