"""Words and numbers for the sentences of a verdict."""

import math
from collections.abc import Sequence
from typing import Final

__all__ = [
    "clip",
    "counted",
    "gain",
    "listed",
    "milliseconds",
    "percent",
    "plain",
    "quote",
    "ratio",
    "share_of",
]

_LONGEST_SENTENCE: Final = 1900
"""Characters; a record allows 2000."""
_LONGEST_QUOTE: Final = 160
_FEW: Final = 3
_LEAST_GAIN: Final = 1e-4
_MOST_GAIN: Final = 9.995
_THREE_DIGITS: Final = 999.5
"""Three significant digits of a larger number need an exponent."""
_MEASURED: Final = 1e9


def clip(text: str, length: int = _LONGEST_SENTENCE) -> str:
    """Shorten text that came from outside, so that a sentence stays within its record."""
    return text if len(text) <= length else text[: length - 3] + "..."


def quote(text: str) -> str:
    """Shorten text that came from outside, for use inside a sentence, without its full stop."""
    return clip(text, _LONGEST_QUOTE).rstrip(".")


def percent(share: float) -> str:
    """A share as `99.3 %`, rounded down, so that only a whole share reads 100 %."""
    tenths = math.floor(share * 1000 + 1e-9)
    if tenths >= 1000 > share * 1000:  # noqa: PLR2004
        tenths = 999
    return f"{tenths // 10} %" if tenths % 10 == 0 else f"{tenths / 10:.1f} %"


def share_of(part: int, whole: int) -> str:
    """`part` of `whole` as a percentage; `none` when the whole is empty."""
    return "none" if whole == 0 else percent(part / whole)


def milliseconds(value: float | None) -> str:
    """A duration with its unit, or that there is none."""
    return "undefined" if value is None else f"{plain(value)} ms"


def gain(share: float) -> str:
    """A gain as `3.21 %`, never with an exponent: beyond tenfold its digits say nothing."""
    if 0 < share < _LEAST_GAIN:
        return "under 0.01 %"
    return f"{plain(share * 100)} %" if share < _MOST_GAIN else "over 1000 %"


def plain(value: float) -> str:
    """Three significant digits and all before the point, such as `0.123`, `12.3` and `12345`.

    Only a value that nothing measured has gets an exponent.
    """
    if _THREE_DIGITS <= abs(value) < _MEASURED:
        return f"{value:.0f}"
    return f"{value:.3g}"


def ratio(value: float) -> str:
    """A ratio with three decimals."""
    return f"{value:.3f}" if value < 1e6 else f"{value:.3g}"  # noqa: PLR2004


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """`1 request`, `2 requests`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def listed(items: Sequence[str]) -> str:
    """The first few items, and how many more there are."""
    shown = ", ".join(quote(item) for item in items[:_FEW])
    rest = len(items) - _FEW
    return f"{shown} and {rest} more" if rest > 0 else shown
