"""Numbers and units as a person reads them. Pure; one home for every rounding rule."""

from dataclasses import dataclass
from typing import Final

from k3bundle.plan import CellPlan
from k3runner.visible import visible

__all__ = [
    "Quantity",
    "bytes_text",
    "cell_phrase",
    "count_text",
    "digits",
    "effect",
    "milliseconds",
    "number_with_unit",
    "percent",
    "plural",
    "seconds",
]

_KIBI: Final = 1024
_UNITS: Final = (
    ("_tokens_per_s", "tokens/s"),
    ("_per_s", "per second"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_nats", "nats"),
)
"""Suffix of a number's name -> unit; the first that fits counts."""
_SHARES: Final = ("_share", "_rate", "_fraction")


@dataclass(frozen=True)
class Quantity:
    """A number and its unit, apart, so that a page can set them differently."""

    value: str
    unit: str

    def __str__(self) -> str:
        return f"{self.value} {self.unit}".strip()


def digits(value: float, significant: int = 3) -> str:
    """Return `value` with a few significant digits, whole when it is large, `0` when it is 0."""
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (significant - 1):
        return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    text = f"{value:.{significant}g}"
    return _scientific(value) if "e" in text else text


def _scientific(value: float) -> str:
    mantissa, exponent = f"{value:.1e}".split("e")
    superscripts = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return f"{mantissa}\N{MULTIPLICATION SIGN}10{str(int(exponent)).translate(superscripts)}"


def milliseconds(value: float | None) -> str:
    """Return a duration in milliseconds, or a dash for None."""
    return "\N{EN DASH}" if value is None else f"{digits(value)} ms"


def seconds(value: float) -> str:
    """Return a duration given in seconds as `12 s`, `3 min 05 s` or `1 h 02 min`."""
    whole = round(value)
    if whole < 60:  # noqa: PLR2004
        return f"{whole} s"
    if whole < 3600:  # noqa: PLR2004
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def percent(share: float | None) -> str:
    """Return a share as a percentage; never rounds up to 100 % or down to 0 %."""
    if share is None:
        return "\N{EN DASH}"
    if 0 < share < 0.001:  # noqa: PLR2004
        return "< 0.1 %"
    if 0.999 < share < 1:  # noqa: PLR2004
        return "> 99.9 %"
    text = f"{share * 100:.1f}".removesuffix(".0")
    return f"{text} %"


def effect(gain: float) -> str:
    """Return a relative gain: `34 %`, or `a factor of 73` once percentages stop to say much."""
    return percent(gain) if gain <= 1 else f"a factor of {digits(1 + gain, 2)}"


def bytes_text(count: int) -> str:
    """Return a size in bytes with a binary unit."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < _KIBI:
            break
        value, unit = value / _KIBI, larger
    return f"{digits(value)} {unit}"


def count_text(count: int) -> str:
    """Return a count with thin spaces between thousands."""
    return f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def plural(count: int, singular: str, plural_form: str | None = None) -> str:
    """Return `1 boot` or `4 boots`."""
    word = singular if count == 1 else plural_form or f"{singular}s"
    return f"{count_text(count)} {word}"


def number_with_unit(name: str, value: float) -> Quantity:
    """Return a headline number; its unit is part of its name, for example `ttft_ms`."""
    if name.endswith(_SHARES):
        text = percent(value).removesuffix(" %")
        return Quantity(text, "%")
    if name.endswith("_ratio"):
        return Quantity(f"{value:.3f}", "\N{MULTIPLICATION SIGN}")
    for suffix, unit in _UNITS:
        if name.endswith(suffix):
            return Quantity(digits(value), unit)
    return Quantity(digits(value), "")


def cell_phrase(cell: CellPlan) -> str:
    """Return what a cell asks of the engine, in a phrase."""
    if cell.kind == "serving":
        return (
            f"{plural(cell.request_count, f'timed {cell.endpoint} stream')}, "
            f"{cell.concurrency} at a time, "
            f"{cell.prompt_tokens} tokens in, {cell.output_tokens} out"
        )
    if cell.kind == "greedy":
        return (
            f"{len(cell.prompt_tokens)} prompts of {min(cell.prompt_tokens)} to "
            f"{max(cell.prompt_tokens)} tokens, {cell.concurrency} at a time, "
            f"{cell.output_tokens} greedy tokens each"
        )
    if cell.kind == "feature":
        return f"{cell.feature.replace('_', ' ')}, {plural(cell.request_count, 'prompt')}"
    if cell.kind == "kernel":
        groups = f", {' and '.join(cell.groups)} cases" if cell.groups else ""
        return f"{cell.task} of {plural(len(cell.ops), 'op')}{groups}"
    return f"skipped: {visible(cell.reason)}"
