"""Numbers, times and statuses as text for a person. Pure."""

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from k3bundle.verdict import ClaimName

__all__ = [
    "CLAIM_QUESTIONS",
    "Mark",
    "Quantity",
    "bytes_text",
    "mark",
    "number_text",
    "percent_text",
    "quantity",
    "time_text",
    "title_sentence",
    "visible",
]

CLAIM_QUESTIONS: Final[dict[ClaimName, str]] = {
    "isolated": "Is the change the only difference?",
    "bounded": "Does it act where it says, and keep every feature?",
    "correct": "Are the outputs the same?",
    "faster": "Is it faster?",
}
"""Each claim as the question that it answers."""

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_LAID_OUT: Final = frozenset("\n\t")
_DECIMALS: Final = ((1000.0, 0), (100.0, 1), (1.0, 2))
_KIB: Final = 1024
_TINY: Final = 0.001
_RAISED: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Mark:
    """How a status is shown: told by word and sign, colour only repeats it."""

    css: str
    """Class name in the style sheet."""
    sign: str
    """One character."""
    word: str
    """The status in words."""


_MARKS: Final[dict[str, Mark]] = {
    "PASS": Mark("pass", "✓", "Pass"),
    "FAIL": Mark("fail", "✕", "Fail"),
    "INVALID": Mark("invalid", "≠", "Invalid"),
    "INCOMPLETE": Mark("incomplete", "…", "Incomplete"),
    "INCONCLUSIVE": Mark("inconclusive", "~", "Inconclusive"),
    "NOT_CLAIMED": Mark("quiet", "\N{EN DASH}", "Not claimed"),
    "SKIPPED": Mark("quiet", "\N{EN DASH}", "Skipped"),
}


@dataclass(frozen=True)
class Quantity:
    """A number with its unit, apart, so that a page can set them in different sizes."""

    text: str
    """The digits."""
    unit: str
    """The unit; empty for a bare number."""


def mark(status: str) -> Mark:
    """How a status is shown."""
    return _MARKS[status]


def title_sentence(status: str, sentence: str) -> str:
    """A verdict's sentence to stand beside its badge, which already says the status."""
    bare = sentence.removeprefix(f"{status}: ")
    return bare[:1].upper() + bare[1:]


def visible(text: str) -> str:
    """Text with every character spelled out that a reader could not see.

    Right-to-left overrides, zero-width characters and control characters could make a page show
    something else than what is recorded.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"⟦U+{ord(character):04X}⟧"
        if unicodedata.category(character) in _UNSEEN and character not in _LAID_OUT
        else character
        for character in text
    )


def quantity(name: str, value: float) -> Quantity:
    """A headline number by the unit at the end of its name."""
    if name.endswith(("_share", "_rate", "_fraction")):
        return Quantity(percent_text(value), "%")
    for suffix, unit in (
        ("_ms", "ms"),
        ("_ms_p50", "ms"),
        ("_tokens_per_s", "tokens/s"),
        ("_nats", "nats"),
        ("_ratio", "\N{MULTIPLICATION SIGN}"),
    ):
        if name.endswith(suffix):
            return Quantity(number_text(value), unit)
    return Quantity(number_text(value), "")


def percent_text(share: float) -> str:
    """A share between 0 and 1 in percent; never rounded up to a full hundred or down to zero."""
    for decimals in (1, 2, 3, 4):
        text = f"{100 * share:.{decimals}f}"
        if share in (0.0, 1.0) or float(text) not in (0.0, 100.0):
            return text.removesuffix(".0")
    return "> 99.9999" if share > 0.5 else "< 0.0001"  # noqa: PLR2004


def number_text(value: float) -> str:
    """A number with about three significant digits; whole numbers in full."""
    if float(value).is_integer() and abs(value) < 2**53:
        return f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    size = abs(value)
    for least, decimals in _DECIMALS:
        if size >= least:
            return f"{value:,.{decimals}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return _scientific(value) if size < _TINY else f"{value:.3g}"


def _scientific(value: float) -> str:
    digits, power = f"{value:.2g}".split("e") if "e" in f"{value:.2g}" else (f"{value:.2g}", "")
    if not power:
        return digits
    return f"{digits}\N{MULTIPLICATION SIGN}10{str(int(power)).translate(_RAISED)}"


def bytes_text(size: int) -> str:
    """A size with a binary unit."""
    amount = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if amount < _KIB or unit == "TiB":
            break
        amount /= _KIB
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


def time_text(moment: datetime) -> str:
    """A time in UTC to the minute."""
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"
