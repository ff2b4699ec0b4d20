"""Why a cell cannot be judged."""

from dataclasses import dataclass

from k3bundle.verdict import InvalidCause

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """A cause with its stable name, and the sentence that a maintainer reads."""

    cause: InvalidCause
    reason: str
