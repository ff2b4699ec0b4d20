"""Which path serves one step on the GPU: pure, from facts that every rank sees alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from k3decode.host.inputs import MAX_ROWS

__all__ = ["FALLBACKS", "EngineStep", "StepClass", "fallback_reason"]

StepClass = Literal["decode", "verify", "prefill", "mixed", "dummy"]
"""Single new tokens, drafts to verify, prompts, prompts and others, or no requests at all."""


@dataclass(frozen=True)
class EngineStep:
    """What the engine says of a step."""

    rows: int
    """Tokens, those of padding included."""
    has_metadata: bool
    """Whether there are requests; runs that only measure memory have none."""
    prompt_requests: int = 0
    """Requests whose prompt is read, by the metadata of KDA."""
    decode_requests: int = 0
    """Requests with one new token."""
    verify_requests: int = 0
    """Requests with drafts."""
    one_row_each: bool = True
    """Whether attention sees as many requests as rows."""
    embeddings_given: bool = False
    """Whether rows come as embeddings instead of tokens."""
    piecewise: bool = False
    """Whether only pieces of the step are captured; such a graph serves steps with prompts."""

    @property
    def kind(self) -> StepClass:
        """Kind of the step."""
        if not self.has_metadata:
            return "dummy"
        if self.piecewise:
            return "mixed"
        if self.prompt_requests:
            return "mixed" if self.decode_requests + self.verify_requests else "prefill"
        return "verify" if self.verify_requests else "decode"


Condition = Callable[[EngineStep, frozenset[int]], bool]

FALLBACKS: tuple[tuple[Condition, str], ...] = (
    (
        lambda step, _: not step.has_metadata,
        "the step has no requests",
    ),
    (
        lambda step, _: step.prompt_requests > 0,
        "the step holds prompt tokens and the path serves none",
    ),
    (
        lambda step, _: step.verify_requests > 0,
        "the step holds drafts and the path serves none",
    ),
    (
        lambda step, _: step.piecewise,
        "only pieces of the step are captured",
    ),
    (
        lambda step, _: step.embeddings_given,
        "the step brings embeddings instead of tokens",
    ),
    (
        lambda step, _: not step.one_row_each,
        "attention sees another number of requests than rows",
    ),
    (
        lambda step, _: step.rows > MAX_ROWS,
        f"the step holds more than {MAX_ROWS} rows",
    ),
    (
        lambda step, prepared: step.rows not in prepared,
        "no batch of as many rows was prepared",
    ),
)
"""Every case that falls back, in the order it is asked: condition and reason."""


def fallback_reason(step: EngineStep, prepared: frozenset[int]) -> str | None:
    """Why stock serves a step; None when the path does.

    Args:
        step: what the engine says of it.
        prepared: numbers of rows that were prepared at start-up.
    """
    for applies, reason in FALLBACKS:
        if applies(step, prepared):
            return reason
    return None
