"""What a badge says, and its geometry. Pure."""

from dataclasses import dataclass
from typing import Final

from k3server.submission import SubmissionRow
from k3server.views.wording import mark

__all__ = ["Badge", "badge_of"]

_LABEL: Final = "k3-eval"
# An estimate of the width of a character of the font, and what stands around the words.
_CHARACTER: Final = 7
_PAD: Final = 12
# Each has a contrast of 4.5 to 1 or more with white.
_COLOURS: Final = {
    "PASS": "#1a7f37",
    "FAIL": "#b42318",
    "INVALID": "#8a4b00",
    "INCOMPLETE": "#57606a",
    "INCONCLUSIVE": "#57606a",
}
_NOTHING: Final = "#57606a"


@dataclass(frozen=True)
class Badge:
    """A badge, ready to be drawn."""

    label: str
    words: str
    colour: str
    split: int
    """Where the words begin, in pixels."""
    width: int
    """In pixels."""


def badge_of(row: SubmissionRow | None) -> Badge:
    """The badge of the newest submission that counts; None when there is none."""
    if row is None:
        words, colour = "no evidence", _NOTHING
    else:
        words = f"{mark(row.summary.status).word.lower()}, {row.trust}"
        colour = _COLOURS[row.summary.status]
    split = _CHARACTER * len(_LABEL) + _PAD
    return Badge(_LABEL, words, colour, split, split + _CHARACTER * len(words) + _PAD)
