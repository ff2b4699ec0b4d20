"""The one rule by which a kernel's output is judged.

Computed data may differ from the reference by twice the error that torch makes in the same number
formats, plus two roundings of the output format. The reference runs in FP64 on the same inputs; the
"same-dtype" form is the reference in FP32 with the roundings that the specification names. Copied
and untouched data must be equal bit by bit. NaN and infinities must stand in the same places.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.formats import pack_e4m3, unpack_e4m3

__all__ = ["Judgement", "judge_bitwise", "judge_close", "judge_e4m3"]

_MANTISSA_BITS = {torch.bfloat16: 7, torch.float32: 23}
_SMALLEST_EXPONENT = -126


@dataclass(frozen=True)
class Judgement:
    """What became of one output."""

    output: str
    passed: bool
    worst: float
    """Largest error divided by what is allowed there; 0 for bitwise equality, inf for none."""
    sentence: str
    """What differs, where; empty when it passed."""


def judge_close(
    output: str, actual: Tensor, *, reference: Tensor, same_dtype: Tensor, shared_axes: int = 1
) -> Judgement:
    """Judge computed values.

    Args:
        output: name of the output.
        actual: what the kernel wrote, [..., N], BF16 or FP32.
        reference: FP64 reference, same shape.
        same_dtype: what torch computes with the specified roundings, same shape.
        shared_axes: last axes over which values have one scale and torch's largest error counts.
    """
    expected = reference.detach().cpu().double()
    found = actual.detach().cpu().double()
    torch_error = (same_dtype.detach().cpu().double() - expected).abs()
    finite = torch.isfinite(expected)
    if (doubt := _unbounded(output, torch_error, expected)) is not None:
        return doubt
    same_place = torch.where(
        finite, torch.isfinite(found), (found == expected) | (found.isnan() & expected.isnan())
    )
    if not bool(same_place.all()):
        where = tuple((~same_place).nonzero()[0].tolist())
        return Judgement(
            output=output,
            passed=False,
            worst=float("inf"),
            sentence=f"expected {expected[where].item():.6g} at {list(where)}, found "
            f"{found[where].item():.6g}",
        )
    # Not over all of it: rows of one output may differ in scale by many orders of magnitude.
    axes = tuple(range(-shared_axes, 0))
    row_error = torch.where(finite, torch_error, 0.0).amax(axes, keepdim=True)
    allowed = 2 * row_error + 2 * _quantum(expected, actual.dtype)
    ratio = torch.where(finite, (found - expected).abs() / allowed, 0.0)
    worst = float(ratio.max()) if ratio.numel() else 0.0
    if worst <= 1.0:
        return Judgement(output=output, passed=True, worst=worst, sentence="")
    place = tuple(torch.unravel_index(ratio.argmax(), ratio.shape))
    return Judgement(
        output=output,
        passed=False,
        worst=worst,
        sentence=f"expected {expected[place].item():.6g} within {allowed[place].item():.3g} at "
        f"{[int(i) for i in place]}, found {found[place].item():.6g}",
    )


def judge_e4m3(
    output: str, actual: Tensor, *, reference: Tensor, same_dtype: Tensor, scale: float
) -> Judgement:
    """Judge values that were rounded to BF16 and then quantised.

    A code is right when some value within the error that BF16 may have quantises to it.

    Args:
        output: name of the output.
        actual: what the kernel wrote, bytes of E4M3, [..., N].
        reference: FP64 reference before any rounding, same shape.
        same_dtype: what torch computes before the quantisation, same shape.
        scale: values were divided by it.
    """
    expected = reference.detach().cpu().double()
    found = unpack_e4m3(actual.detach().cpu())
    error = (same_dtype.detach().cpu().double() - expected).abs()
    if (doubt := _unbounded(output, error, expected)) is not None:
        return doubt
    error = torch.where(torch.isfinite(expected), error, 0.0).amax(-1, keepdim=True)
    allowed = 2 * error + 2 * _quantum(expected, torch.bfloat16)
    nearest, lowest, highest = (
        unpack_e4m3(pack_e4m3(values, scale))
        for values in (expected, expected - allowed, expected + allowed)
    )
    right = (found >= lowest) & (found <= highest) | (found.isnan() & nearest.isnan())
    if bool(right.all()):
        # Nothing between the right code and its neighbour could be told apart.
        worst = float((found != nearest).any())
        return Judgement(output=output, passed=True, worst=worst, sentence="")
    where = tuple((~right).nonzero()[0].tolist())
    return Judgement(
        output=output,
        passed=False,
        worst=float("inf"),
        sentence=f"expected E4M3 {nearest[where].item():.6g} at {list(where)}, found "
        f"{found[where].item():.6g}",
    )


def _unbounded(output: str, error: Tensor, expected: Tensor) -> Judgement | None:
    """A failure where torch leaves its format: an error without end would allow anything."""
    beyond = torch.isfinite(expected) & ~torch.isfinite(error)
    if not bool(beyond.any()):
        return None
    where = tuple(beyond.nonzero()[0].tolist())
    return Judgement(
        output=output,
        passed=False,
        worst=float("inf"),
        sentence=f"expected torch to be near {expected[where].item():.6g} at {list(where)}, found "
        "that it leaves the format there, so nothing can be judged: take smaller inputs",
    )


def judge_bitwise(output: str, actual: Tensor, expected: Tensor) -> Judgement:
    """Judge data that was only moved or must not have been touched; NaN equals the same NaN."""
    found, wanted = _bytes(actual), _bytes(expected)
    if found.shape == wanted.shape and torch.equal(found, wanted):
        return Judgement(output=output, passed=True, worst=0.0, sentence="")
    if found.shape != wanted.shape:
        sentence = f"expected the bytes of {list(expected.shape)}, found {list(actual.shape)}"
    else:
        different = int((found != wanted).any(-1).sum())
        where = (found != wanted).any(-1).nonzero()[0].tolist()
        sentence = f"expected the same bits, found {different} that differ, the first at {where}"
    return Judgement(output=output, passed=False, worst=float("inf"), sentence=sentence)


def _bytes(tensor: Tensor) -> Tensor:
    plain = tensor.detach().cpu().contiguous()
    return plain.view(torch.uint8).reshape(*plain.shape, plain.element_size())


def _quantum(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Distance between neighbouring numbers of a format at these magnitudes."""
    exponents = torch.frexp(values.abs()).exponent - 1
    exponents = torch.where(values == 0, _SMALLEST_EXPONENT, exponents)
    exponents = exponents.clamp(min=_SMALLEST_EXPONENT)
    return torch.exp2((exponents - _MANTISSA_BITS[dtype]).double())
