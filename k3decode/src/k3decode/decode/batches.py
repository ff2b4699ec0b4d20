"""Which captured graph serves a step: pure, no tensors here.

A graph has a fixed number of rows. A step takes the smallest graph that holds it; the rows it does
not fill are padding, which changes no state.
"""

from dataclasses import dataclass

from k3decode.decode.facts import PreparedScope, StepFacts
from k3decode.decode.plan import Fallback, plan

__all__ = ["NOT_PREPARED", "Batch", "PreparedStep", "plan_prepared"]

NOT_PREPARED = "no graph was prepared for as many requests with as many tokens each"
"""Reason of a step that the scope would allow, but no graph holds."""


@dataclass(frozen=True, order=True)
class Batch:
    """What one graph is captured for."""

    tokens: int
    """Rows of each request: one, or one and its drafts."""
    requests: int

    def __post_init__(self) -> None:
        if min(self.tokens, self.requests) < 1:
            raise ValueError(
                f"a batch has at least one request with one token, found {self.requests} with "
                f"{self.tokens}"
            )

    @property
    def rows(self) -> int:
        """Rows of the graph."""
        return self.tokens * self.requests


@dataclass(frozen=True)
class PreparedStep:
    """A step and the graph that serves it."""

    batch: Batch
    live_requests: int
    """Requests of the step; the graph's others are padding."""


def plan_prepared(
    facts: StepFacts, scope: PreparedScope, batches: tuple[Batch, ...]
) -> PreparedStep | Fallback:
    """Choose the graph of a step.

    Args:
        facts: of the step, alike on every rank.
        scope: what the path serves; it must serve no prompts and uniform drafts only.
        batches: what graphs were captured for, alike on every rank.

    Returns:
        The smallest graph that holds the step, or why there is none.
    """
    decision = plan(facts, scope)
    if isinstance(decision, Fallback):
        return decision
    tokens = facts.longest_draft + 1
    # A request without drafts beside others with drafts is one more uneven request.
    if facts.verify_requests and facts.decode_requests:
        return Fallback(NOT_PREPARED)
    fitting = [
        batch
        for batch in batches
        if batch.tokens == tokens and batch.requests >= facts.num_requests
    ]
    if not fitting:
        return Fallback(NOT_PREPARED)
    return PreparedStep(batch=min(fitting), live_requests=facts.num_requests)
