"""The one decision of a step: serve it, or fall back to stock and say why.

`plan` is a pure, total function of facts and scope. It reads no device, clock, environment or
context, so every rank that is given the same facts decides alike.
"""

from collections.abc import Callable
from dataclasses import dataclass

from k3decode.decode.facts import PreparedScope, StepFacts

__all__ = ["FALLBACKS", "Fallback", "Step", "plan"]


@dataclass(frozen=True)
class Step:
    """The path serves the step."""


@dataclass(frozen=True)
class Fallback:
    """Stock serves the step."""

    reason: str
    """Why, in words fit for a report; one of the sentences of `FALLBACKS`."""


Condition = Callable[[StepFacts, PreparedScope], bool]

FALLBACKS: tuple[tuple[Condition, str], ...] = (
    (
        lambda facts, _: facts.num_tokens == 0,
        "the step holds no tokens",
    ),
    (
        lambda facts, scope: facts.prompt_rows > 0 and scope.max_prompt_rows == 0,
        "the step holds prompt tokens and the path serves none",
    ),
    (
        lambda facts, scope: facts.prompt_rows > scope.max_prompt_rows,
        "the step holds more prompt tokens than were prepared",
    ),
    (
        lambda facts, scope: facts.decode_rows > scope.max_decode_rows,
        "the step holds more decode rows than were prepared",
    ),
    (
        lambda facts, scope: facts.longest_draft > scope.max_draft_tokens,
        "a request brings more draft tokens than were prepared",
    ),
    (
        lambda facts, scope: (
            scope.uniform_verify_only and facts.verify_rows > 0 and not facts.uniform_verify
        ),
        "the requests of the step do not all verify equally many tokens",
    ),
)
"""Every case that falls back, in the order it is asked: condition and reason."""


def plan(facts: StepFacts, scope: PreparedScope) -> Step | Fallback:
    """Decide how a step is served.

    Returns:
        `Step` when no condition of `FALLBACKS` holds, otherwise `Fallback` with the first reason.
    """
    for applies, reason in FALLBACKS:
        if applies(facts, scope):
            return Fallback(reason)
    return Step()
