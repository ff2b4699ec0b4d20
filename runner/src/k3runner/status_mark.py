"""How each status is shown: a mark, a word and a tone. One home, so that no page invents its own.

A status is always shown with its word; mark and colour only help.
"""

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["Mark", "Status", "Tone", "mark_of", "without_status"]

Tone = Literal["good", "bad", "warn", "odd", "quiet"]
"""What a status means for the reader; displays map it to a colour."""

Status = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "INCOMPLETE", "SKIPPED", "NOT_CLAIMED"]
"""Every status of a verdict, a claim or a cell."""


@dataclass(frozen=True)
class Mark:
    """How one status is shown."""

    glyph: str
    """One character that differs in shape from all others."""
    word: str
    """The status in words."""
    tone: Tone
    """What it means for the reader."""
    meaning: str
    """The status in one sentence."""


_MARKS: Final[dict[str, Mark]] = {
    "PASS": Mark("✓", "PASS", "good", "Everything that was gated on held."),
    "FAIL": Mark("✕", "FAIL", "bad", "Judged, and it fell short."),
    "INCONCLUSIVE": Mark("≈", "INCONCLUSIVE", "warn", "Judged; the interval holds the threshold."),
    "INVALID": Mark("!", "INVALID", "odd", "What ran is not what was to be measured."),
    "INCOMPLETE": Mark("…", "INCOMPLETE", "warn", "A part of the evidence is not there."),
    "SKIPPED": Mark("\N{EN DASH}", "SKIPPED", "quiet", "Planned as skipped, with a reason."),
    "NOT_CLAIMED": Mark("○", "NOT CLAIMED", "quiet", "This tier does not make the claim."),
}


def mark_of(status: Status) -> Mark:
    """Return how a status is shown."""
    return _MARKS[status]


def without_status(sentence: str, status: Status) -> str:
    """Return `sentence` without a leading `STATUS: `, for a place that shows the status already."""
    rest = sentence.removeprefix(f"{status}: ")
    return rest if rest == sentence else rest[:1].upper() + rest[1:]
