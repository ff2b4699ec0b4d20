"""How far two ways of computing the same logits are apart, and what may be asked of a third; pure.

The yardstick is the engine against itself: its decode steps and its prompt steps compute the same
rows by other kernels in the same formats. As with a kernel's outputs, ours may be off twice as far
as the largest of these differences, plus two roundings. Two logits may then come closer by twice
that; where stock's best leads by more, ours has to choose the same token.
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Agreement", "errors_by_step", "judge_agreement", "relative_errors"]

_NEEDED_SHARE = 0.9
_BF16_STEP = 2.0**-8


@dataclass(frozen=True)
class Agreement:
    """What a comparison of N positions found."""

    outcome: str
    """`passed`, `failed`, or `invalid` where too few positions decide anything."""
    sentence: str
    """What was expected and found; empty when it passed."""
    positions: int
    allowed: float
    """Largest difference of a logit that ours may have."""
    largest: float
    """Largest difference that ours has."""
    yardstick: float
    """Largest difference between the engine's two ways."""
    deciding_share: float
    """Share of positions whose margin is larger than what rounding may close."""
    equal_where_deciding: float
    """Of those, the share with the same greedy token."""
    equal_anywhere: float
    """Share of all positions with the same greedy token."""
    stock_equal_itself: float
    """Share of all positions where the engine's two ways have the same greedy token."""

    def record(self) -> dict[str, Any]:
        """For a line of results."""
        return asdict(self)


def judge_agreement(ours: Tensor, stock: Tensor, stock_other_way: Tensor) -> Agreement:
    """Judge our logits.

    Args:
        ours: FP32 [N, V].
        stock: of the engine's decode steps, FP32 [N, V].
        stock_other_way: of its prompt steps, FP32 [N, V].
    """
    yardstick = float((stock - stock_other_way).abs().max())
    rounding = 2 * _BF16_STEP * float(stock.abs().max())
    allowed = 2 * yardstick + rounding
    largest = float((ours - stock).abs().max())
    best = stock.topk(2, dim=-1).values
    decides = (best[:, 0] - best[:, 1]) > 2 * allowed
    equal = ours.argmax(-1) == stock.argmax(-1)
    share = float(decides.double().mean())
    # Counted, since a mean of ones may come out below one.
    agreed = int((equal & decides).sum()) / max(1, int(decides.sum()))
    outcome, sentence = _outcome(bool(torch.isfinite(ours).all()), share, agreed, largest, allowed)
    return Agreement(
        outcome=outcome,
        sentence=sentence,
        positions=int(stock.shape[0]),
        allowed=allowed,
        largest=largest,
        yardstick=yardstick,
        deciding_share=share,
        equal_where_deciding=agreed,
        equal_anywhere=float(equal.double().mean()),
        stock_equal_itself=float((stock_other_way.argmax(-1) == stock.argmax(-1)).double().mean()),
    )


def _outcome(
    finite: bool, share: float, agreed: float, largest: float, allowed: float
) -> tuple[str, str]:
    if not finite:
        return (
            "failed",
            "expected finite logits, found others: look at the first step that has them",
        )
    if share < _NEEDED_SHARE:
        return "invalid", (
            f"expected at least {_NEEDED_SHARE:.0%} of positions with a margin beyond rounding, "
            f"found {share:.1%}: make the LM head's loud rows louder"
        )
    if agreed < 1.0:
        return "failed", (
            f"expected the same greedy token wherever the margin is beyond rounding, found "
            f"{agreed:.2%} of them"
        )
    if largest > allowed:
        return "failed", (
            f"expected logits within {allowed:.4g} of stock, found a difference of {largest:.4g}"
        )
    return "passed", ""


def relative_errors(one: Tensor, other: Tensor) -> dict[str, float]:
    """Distance of two sets of logits over the length of the second, per position: quantiles.

    Args:
        one: FP32 [N, V].
        other: FP32 [N, V].
    """
    errors = (one - other).norm(dim=-1) / other.norm(dim=-1)
    marks = torch.tensor([0.5, 0.99, 1.0], device=errors.device)
    median, high, largest = torch.quantile(errors.float(), marks).tolist()
    return {"median": median, "p99": high, "largest": largest}


def errors_by_step(one: Tensor, other: Tensor) -> list[float]:
    """Median over requests of what `relative_errors` measures, step by step.

    The first steps say what a step itself does, the later ones what state carries on.

    Args:
        one: FP32 [steps, requests, V].
        other: of the same shape.
    """
    errors = (one - other).norm(dim=-1) / other.norm(dim=-1)
    medians: list[float] = errors.median(dim=-1).values.tolist()
    return medians
