"""What a plan may look at: the facts of one step, and the scope prepared at start-up.

Facts hold only what every rank of a deployment sees alike, so that ranks cannot decide differently.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["PreparedScope", "StepFacts", "StepKind"]

StepKind = Literal["decode", "verify", "prefill", "mixed"]
"""What a step holds: single new tokens, drafts to verify, prompt tokens, or prompts and others."""


@dataclass(frozen=True)
class StepFacts:
    """Requests and rows of one step; a row is one token of one request."""

    decode_requests: int = 0
    """Requests with one new token and a state to go on from."""
    verify_requests: int = 0
    """Requests with draft tokens to verify."""
    verify_rows: int = 0
    """Rows of those requests: the drafts and one token more for each."""
    longest_draft: int = 0
    """Most draft tokens of one request."""
    uniform_verify: bool = True
    """Whether every request of a step with drafts brings equally many rows."""
    prompt_requests: int = 0
    """Requests whose prompt, or a chunk of it, is read."""
    prompt_rows: int = 0
    """Rows of those requests."""

    def __post_init__(self) -> None:
        counts = (
            self.decode_requests,
            self.verify_requests,
            self.verify_rows,
            self.longest_draft,
            self.prompt_requests,
            self.prompt_rows,
        )
        consistent = (
            min(counts) >= 0
            and self.prompt_rows >= self.prompt_requests
            and (self.prompt_requests > 0 or self.prompt_rows == 0)
            and self.verify_rows >= 2 * self.verify_requests
            and (self.verify_requests > 0) == (self.longest_draft > 0)
            and self.verify_rows <= self.verify_requests * (self.longest_draft + 1)
        )
        if not consistent:
            raise ValueError(
                f"facts of a step must fit together, found {self}: count again how its rows were "
                "sorted into decode, verify and prompt rows"
            )

    @property
    def num_requests(self) -> int:
        """All requests of the step."""
        return self.decode_requests + self.verify_requests + self.prompt_requests

    @property
    def decode_rows(self) -> int:
        """Rows that are not prompt: what a decode path's limit is about."""
        return self.decode_requests + self.verify_rows

    @property
    def num_tokens(self) -> int:
        """All rows of the step."""
        return self.decode_rows + self.prompt_rows

    @property
    def kind(self) -> StepKind:
        """Kind of the step, the first that fits: mixed, prefill, verify, decode."""
        if self.prompt_rows:
            return "mixed" if self.decode_rows else "prefill"
        return "verify" if self.verify_rows else "decode"


@dataclass(frozen=True)
class PreparedScope:
    """What a path got ready for at start-up; steps outside it run stock."""

    max_decode_rows: int
    """Most rows of decode and verify requests in one step."""
    max_draft_tokens: int
    """Most draft tokens of one request."""
    max_prompt_rows: int
    """Most prompt rows in one step; 0 when the path serves no prompts."""
    uniform_verify_only: bool
    """Whether all requests of a step with drafts must bring equally many rows."""
