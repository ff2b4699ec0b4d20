"""One thing that was looked at, with its outcome and what to do about it."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "Outcome"]

Outcome = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    """What was looked at, in a word or two."""
    outcome: Outcome
    """`problem`: a run cannot succeed. `warning`: it can, but read the sentence."""
    sentence: str
    """What was found."""
    remedy: str
    """What to do; empty when nothing needs doing."""
