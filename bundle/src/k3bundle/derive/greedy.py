"""Greedy outputs of two boots, compared token by token.

Correct kernels may pick another token where the baseline's best two are almost level. So the first
different position p of a request decides: it is a tie when the baseline's gap at p (log-probability
of its token minus that of the runner-up) is at most the tie margin, and a difference otherwise.
After p the texts differ anyway and nothing is compared. At equal positions the log-probabilities
of the chosen token must agree within the tolerance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from k3bundle.plan import Gates
from k3bundle.request import RequestRecord, TokenLogprob

__all__ = ["Comparison", "Totals", "compare", "generated_tokens", "total", "unusable"]


@dataclass(frozen=True)
class Comparison:
    """One request of two boots."""

    index: int
    """Prompt number within the cell."""
    outcome: Literal["identical", "tie", "difference"]
    position: int | None
    """First different position; None when all tokens are equal."""
    positions: int
    """Positions compared, the first different one included."""
    decided: int
    """Of those, positions whose baseline gap exceeds the tie margin."""
    largest_logprob_difference_nats: float
    logprobs_missing: bool
    """Whether the second boot left out log-probabilities that the first one has."""


@dataclass(frozen=True)
class Totals:
    """Comparisons added up."""

    compared: int
    positions: int
    decided: int
    identical: int
    ties: int
    differences: int
    largest_logprob_difference_nats: float

    @property
    def decided_share(self) -> float:
        """Share of compared positions that were decided; 0 when none was compared."""
        return self.decided / self.positions if self.positions else 0.0


def generated_tokens(request: RequestRecord) -> tuple[int, ...] | None:
    """The generated token ids, from the ids or else from the log-probabilities."""
    if request.token_ids is not None:
        return request.token_ids
    if request.logprobs is not None:
        return tuple(entry.token_id for entry in request.logprobs)
    return None


def unusable(request: RequestRecord) -> str | None:
    """Say why a greedy request cannot be compared; None when it can."""
    if request.outcome.status == "failed":
        return f"failed ({request.outcome.error})"
    if request.temperature != 0:
        return f"was sampled at temperature {request.temperature:g}"
    tokens = generated_tokens(request)
    if not tokens:
        return "gave no token ids"
    if len(tokens) != request.outcome.completion_tokens:
        return f"gave {len(tokens)} token ids for {request.outcome.completion_tokens} tokens"
    return _logprob_trouble(request, tokens)


def _logprob_trouble(request: RequestRecord, tokens: tuple[int, ...]) -> str | None:
    if request.logprobs is not None and len(request.logprobs) > len(tokens):
        return f"gave {len(request.logprobs)} log-probabilities for {len(tokens)} tokens"
    if any(e.token_id != t for e, t in zip(request.logprobs or (), tokens, strict=False)):
        return "gave log-probabilities of other tokens than it chose"
    return None


def compare(baseline: RequestRecord, other: RequestRecord, gates: Gates) -> Comparison:
    """Compare one greedy request of two boots.

    Args:
        baseline: The request in the baseline boot; its gaps decide what is a tie.
        other: The same prompt in the other boot.
        gates: The tie margin.

    Returns:
        The comparison. An answer that stops before the other one is a difference there.
    """
    first = generated_tokens(baseline) or ()
    second = generated_tokens(other) or ()
    shared = min(len(first), len(second))
    position = next((i for i in range(shared) if first[i] != second[i]), None)
    if position is None and len(first) != len(second):
        position = shared
    equal = shared if position is None else position
    compared = equal if position is None else equal + 1
    known = (baseline.logprobs or ())[:compared]
    decided = sum(_is_decided(entry, gates.tie_margin_nats) for entry in known)
    outcome: Literal["identical", "tie", "difference"] = "identical"
    if position is not None:
        outcome = "difference"
        if position < shared and position < len(known) and _is_tie(known[position], gates):
            outcome = "tie"
    largest = max(
        (
            abs(a.logprob - b.logprob)
            for a, b in zip(known[:equal], (other.logprobs or ())[:equal], strict=False)
        ),
        default=0.0,
    )
    return Comparison(
        index=baseline.index,
        outcome=outcome,
        position=position,
        positions=compared,
        decided=decided,
        largest_logprob_difference_nats=largest,
        logprobs_missing=len((other.logprobs or ())[:equal]) < len(known[:equal]),
    )


def total(comparisons: Sequence[Comparison]) -> Totals:
    """Add comparisons up."""
    return Totals(
        compared=len(comparisons),
        positions=sum(c.positions for c in comparisons),
        decided=sum(c.decided for c in comparisons),
        identical=sum(c.outcome == "identical" for c in comparisons),
        ties=sum(c.outcome == "tie" for c in comparisons),
        differences=sum(c.outcome == "difference" for c in comparisons),
        largest_logprob_difference_nats=max(
            (c.largest_logprob_difference_nats for c in comparisons), default=0.0
        ),
    )


def _is_decided(entry: TokenLogprob, margin: float) -> bool:
    # An unknown gap is neither: it does not make a position decided, nor excuse a difference.
    gap = _gap(entry)
    return gap is not None and gap > margin


def _is_tie(entry: TokenLogprob, gates: Gates) -> bool:
    gap = _gap(entry)
    return gap is not None and gap <= gates.tie_margin_nats


def _gap(entry: TokenLogprob) -> float | None:
    runner_up = entry.runner_up_logprob
    return None if runner_up is None else entry.logprob - runner_up
