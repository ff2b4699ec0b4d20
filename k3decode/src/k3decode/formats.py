"""Number formats of weights and caches: MXFP4 and FP8 E4M3, packed and unpacked in plain torch.

MXFP4 stores E2M1 values two to a byte, the even column in the low nibble, and one E8M0 scale per 32
columns: value = E2M1 * 2^(scale - 127). A scale byte of 255 means NaN. The smallest products are
denormal in FP32 and still exact there.
"""

import torch
from torch import Tensor

__all__ = [
    "E2M1_VALUES",
    "E4M3_MAX",
    "MXFP4_GROUP",
    "pack_e4m3",
    "pack_mxfp4",
    "unpack_e4m3",
    "unpack_mxfp4",
]

MXFP4_GROUP = 32
"""Columns that share one scale."""

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitudes of the eight codes; bit 3 of a nibble is the sign."""

E4M3_MAX = 448.0
"""Largest finite E4M3 value (the variant without infinities)."""

_SIGN_BIT = 8
_SCALE_BIAS = 127
_SCALE_NAN = 255
# E2M1's largest exponent is 2: a group's scale brings its largest magnitude into [4, 8).
_E2M1_MAX_EXPONENT = 2


def unpack_mxfp4(packed: Tensor, scales: Tensor) -> Tensor:
    """De-quantise.

    Args:
        packed: uint8, [..., C / 2].
        scales: uint8, [..., C / 32].

    Returns:
        FP32 values, [..., C]; NaN where the scale is 255.

    Raises:
        ValueError: the shapes do not belong together.
    """
    columns = 2 * packed.shape[-1]
    if packed.shape[:-1] != scales.shape[:-1] or columns != MXFP4_GROUP * scales.shape[-1]:
        raise ValueError(
            f"expected one scale per {MXFP4_GROUP} columns, found {tuple(packed.shape)} bytes and "
            f"{tuple(scales.shape)} scales: {columns} columns need {columns // MXFP4_GROUP}"
        )
    nibbles = torch.stack([packed & 0xF, packed >> 4], dim=-1).flatten(-2)
    magnitudes = torch.tensor(E2M1_VALUES, device=packed.device)[(nibbles & 7).long()]
    values = torch.where(nibbles >= _SIGN_BIT, -magnitudes, magnitudes)
    factors = _scale_factors(scales)
    grouped = values.unflatten(-1, (-1, MXFP4_GROUP)) * factors[..., None]
    return grouped.flatten(-2)


def pack_mxfp4(values: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise to the nearest E2M1 value, ties to the even code, with a floor-exponent scale.

    Args:
        values: finite, [..., C], C a multiple of 32.

    Returns:
        Bytes [..., C / 2] and scales [..., C / 32], both uint8. Magnitudes beyond six times the
        scale saturate.

    Raises:
        ValueError: the width is no multiple of 32, or a value is not finite.
    """
    if values.shape[-1] % MXFP4_GROUP:
        raise ValueError(
            f"expected a multiple of {MXFP4_GROUP} columns, found {values.shape[-1]}: pad the rows"
        )
    if not bool(torch.isfinite(values).all()):
        raise ValueError("expected finite values: E2M1 has neither NaN nor infinities")
    grouped = values.double().unflatten(-1, (-1, MXFP4_GROUP))
    largest = grouped.abs().amax(-1)
    # frexp gives a mantissa in [0.5, 1): its exponent is one above the floor of the logarithm.
    exponents = torch.frexp(largest).exponent - 1 - _E2M1_MAX_EXPONENT
    exponents = torch.where(largest == 0, torch.zeros_like(exponents), exponents)
    scales = (exponents + _SCALE_BIAS).clamp(0, _SCALE_NAN - 1)
    scaled = grouped.abs() * torch.exp2((_SCALE_BIAS - scales[..., None]).double())
    codes = _nearest_e2m1(scaled)
    signs = torch.signbit(grouped).to(torch.uint8) * _SIGN_BIT
    nibbles = (codes | signs).flatten(-2).unflatten(-1, (-1, 2))
    return nibbles[..., 0] | (nibbles[..., 1] << 4), scales.to(torch.uint8)


def pack_e4m3(values: Tensor, scale: float = 1.0) -> Tensor:
    """Quantise values / scale to E4M3 and saturate; returns the bytes, uint8, same shape."""
    scaled = (values.float() / scale).clamp(-E4M3_MAX, E4M3_MAX)
    return scaled.to(torch.float8_e4m3fn).view(torch.uint8)


def unpack_e4m3(packed: Tensor, scale: float = 1.0) -> Tensor:
    """De-quantise bytes of E4M3 to FP32 times scale, same shape."""
    return packed.view(torch.float8_e4m3fn).float() * scale


def _scale_factors(scales: Tensor) -> Tensor:
    """2^(s - 127) in FP32, NaN for 255, exact down to 2^-127, which is denormal."""
    factors = torch.exp2(scales.double() - _SCALE_BIAS)
    return torch.where(scales == _SCALE_NAN, torch.nan, factors).float()


def _nearest_e2m1(magnitudes: Tensor) -> Tensor:
    """Codes of the nearest magnitudes, ties to the even code."""
    levels = torch.tensor(E2M1_VALUES, dtype=torch.float64, device=magnitudes.device)
    midpoints = (levels[1:] + levels[:-1]) / 2
    upper = torch.bucketize(magnitudes, midpoints, right=True)
    lower = torch.bucketize(magnitudes, midpoints, right=False)
    # On a midpoint the two differ by one: the even one of them is taken.
    return torch.where(upper % 2 == 0, upper, lower).to(torch.uint8)
