"""How many tokens a decode step holds, and which of those counts a decode path is prepared for.

    step tokens = requests x (1 + draft tokens)

A path that is captured for some token counts serves a step by the next prepared count, with
padding, and leaves every larger step to stock without a word. With speculation that happens at
few requests: 7 drafts and 16 requests are 128 tokens. So a plan asks here, and gives the sizes
beyond the limit a cell of their own.
"""

from dataclasses import dataclass
from typing import Final

__all__ = [
    "LATENCY_SPECIALIZED",
    "PreparationRule",
    "PreparedTokens",
    "prepared_tokens",
    "step_tokens",
]


def step_tokens(requests: int, draft_tokens: int) -> int:
    """Tokens of a step in which every request decodes, verifying its drafts.

    Args:
        requests: Requests in the step, at least 1.
        draft_tokens: Draft tokens of each request; 0 without speculation.

    Raises:
        ValueError: A number is out of range.
    """
    if requests < 1 or draft_tokens < 0:
        raise ValueError(
            f"Expected at least 1 request and no negative drafts, found {requests} requests and "
            f"{draft_tokens} drafts; take both from the cell and the subject."
        )
    return requests * (1 + draft_tokens)


@dataclass(frozen=True)
class PreparedTokens:
    """The token counts that a decode path prepares graphs for, in one deployment."""

    sizes: tuple[int, ...]
    """Prepared token counts, ascending, without repetition."""
    draft_tokens: int
    """Draft tokens of each request."""

    @property
    def largest(self) -> int:
        """The largest prepared token count; 0 when nothing is prepared."""
        return self.sizes[-1] if self.sizes else 0

    @property
    def most_requests(self) -> int:
        """The most requests whose decode step is still within the prepared token counts."""
        return self.largest // (1 + self.draft_tokens)

    def padded(self, requests: int) -> int | None:
        """The prepared count that serves a step, padding included; None: stock serves it."""
        tokens = step_tokens(requests, self.draft_tokens)
        return next((size for size in self.sizes if size >= tokens), None)

    def why_stock(self, requests: int) -> str | None:
        """Why stock serves a step of so many requests, in a sentence; None when the path does."""
        if self.padded(requests) is not None:
            return None
        tokens = step_tokens(requests, self.draft_tokens)
        return (
            f"{requests} requests x (1 + {self.draft_tokens} drafts) are {tokens} tokens, and the "
            f"path is prepared for at most {self.largest}: stock serves this size."
        )

    def first_beyond(self) -> int:
        """The fewest requests whose step is beyond the prepared counts: a cell of every plan."""
        return self.most_requests + 1

    def between(self) -> tuple[int, ...]:
        """Request counts whose steps are padded: each is the fewest above a prepared count.

        Padding hurts most just above a prepared count, so that is where cells belong.
        """
        group = 1 + self.draft_tokens
        candidates = (size // group + 1 for size in self.sizes)
        return tuple(
            sorted(
                {
                    requests
                    for requests in candidates
                    if requests <= self.most_requests and requests * group not in self.sizes
                }
            )
        )


@dataclass(frozen=True)
class PreparationRule:
    """How a decode path chooses its token counts. A fact about the path, read from its source."""

    always: tuple[int, ...]
    """Token counts that are prepared in every deployment."""
    limit: int
    """Largest token count that is ever prepared."""


LATENCY_SPECIALIZED: Final = PreparationRule(always=(*range(1, 9), 16, 32, 64), limit=64)
"""vLLM 0.33.0's `decode_backend: latency_specialized` of Kimi K3."""


def prepared_tokens(
    rule: PreparationRule, capture_sizes: tuple[int, ...], draft_tokens: int
) -> PreparedTokens:
    """The token counts that a path prepares in one deployment.

    Args:
        rule: The path's rule.
        capture_sizes: Graph sizes of the deployment, in tokens. With speculation each is rounded
            up to whole groups of 1 + `draft_tokens` tokens, as the engine does.
        draft_tokens: Draft tokens of each request; 0 without speculation.

    Raises:
        ValueError: A number is out of range.
    """
    group = step_tokens(1, draft_tokens)
    rounded = {-(-size // group) * group for size in (*rule.always, *capture_sizes) if size > 0}
    return PreparedTokens(
        sizes=tuple(sorted(size for size in rounded if size <= rule.limit)),
        draft_tokens=draft_tokens,
    )
