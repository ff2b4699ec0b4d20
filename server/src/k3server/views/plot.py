"""Geometry of the small plots, in user units of an SVG 340 units wide. Pure.

Templates draw it; nothing here makes markup.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from k3bundle.subject import ArmName
from k3bundle.verdict import BootMeasurement, RatioInterval
from k3server.views.wording import number_text

__all__ = ["Dot", "RatioPlot", "RatioRow", "StripPlot", "Tick", "ratio_plot", "strip_plot"]

WIDTH: Final = 340
_LEFT: Final = 78
_RIGHT: Final = 326
_ROW_Y: Final[dict[ArmName, int]] = {"baseline": 18, "candidate": 42}
_RATIO_ROW: Final = 30
# Equal arms must look equal, so the axis never zooms in on less than about 2 % either way.
_LEAST_LOG_SPAN: Final = 0.02
_WANTED_TICKS: Final = 5
_MOST_TICKS: Final = 6
# Up to here round numbers at equal distances stand far enough apart on an axis of logarithms.
_NARROW_RATIO: Final = 2.5
_METRIC_WORDS: Final = {
    "output_tokens_per_s": "throughput",
    "ttft_ms_p50": "TTFT",
    "tpot_ms_p50": "TPOT",
}


@dataclass(frozen=True)
class Tick:
    """A mark on the axis."""

    x: float
    text: str


@dataclass(frozen=True)
class Dot:
    """One boot."""

    x: float
    y: float
    arm: ArmName
    title: str
    """What a pointer that rests on it reads."""


@dataclass(frozen=True)
class StripPlot:
    """One number per boot, a row per arm."""

    title: str
    unit: str
    description: str
    """The same in words, for who cannot see it."""
    dots: tuple[Dot, ...]
    ticks: tuple[Tick, ...]
    rows: tuple[tuple[ArmName, float], ...]
    left: float = _LEFT
    right: float = _RIGHT
    axis_y: float = 60
    height: float = 84


@dataclass(frozen=True)
class RatioRow:
    """One ratio with its interval."""

    label: str
    y: float
    x: float
    low: float | None
    """Left end of the interval; None where no interval can be computed."""
    high: float | None
    """Right end of the interval."""


@dataclass(frozen=True)
class RatioPlot:
    """Ratios of candidate to baseline on a logarithmic axis."""

    description: str
    rows: tuple[RatioRow, ...]
    ticks: tuple[Tick, ...]
    one_x: float
    """Where both arms are equal."""
    axis_y: float
    height: float
    left: float = _LEFT
    right: float = _RIGHT


def strip_plot(
    boots: Sequence[BootMeasurement], metric: str, title: str, unit: str
) -> StripPlot | None:
    """One number per boot.

    Args:
        boots: Measurements of one cell.
        metric: Field of `BootMeasurement`.
        title: Name of the number.
        unit: Its unit.

    Returns:
        The plot; None when no boot has the number.
    """
    points = [
        (boot, float(value)) for boot in boots if (value := getattr(boot, metric)) is not None
    ]
    if not points:
        return None
    low, high = _padded([value for _, value in points])
    arms = [arm for arm in _ROW_Y if any(boot.arm == arm for boot, _ in points)]
    dots = tuple(
        Dot(
            x=_place(value, low, high),
            y=_ROW_Y[boot.arm],
            arm=boot.arm,
            title=f"boot {boot.slot}, {boot.arm}: {number_text(value)} {unit}",
        )
        for boot, value in points
    )
    ticks = tuple(Tick(_place(value, low, high), f"{value:g}") for value in _ticks(low, high))
    return StripPlot(
        title=title,
        unit=unit,
        description=f"{title} per boot. " + "; ".join(dot.title for dot in dots) + ".",
        dots=dots,
        ticks=ticks,
        rows=tuple((arm, _ROW_Y[arm]) for arm in arms),
    )


def ratio_plot(intervals: Sequence[RatioInterval]) -> RatioPlot | None:
    """Ratios with their intervals; None when there is no ratio."""
    if not intervals:
        return None
    bounds = [
        math.log(value)
        for each in intervals
        for value in (each.ratio, each.lower, each.upper)
        if value is not None
    ]
    low, high = _padded([-_LEAST_LOG_SPAN, _LEAST_LOG_SPAN, *bounds])
    rows = tuple(
        RatioRow(
            label=_METRIC_WORDS[each.metric],
            y=18 + _RATIO_ROW * number,
            x=_place(math.log(each.ratio), low, high),
            low=None if each.lower is None else _place(math.log(each.lower), low, high),
            high=None if each.upper is None else _place(math.log(each.upper), low, high),
        )
        for number, each in enumerate(intervals)
    )
    axis_y = rows[-1].y + 18
    return RatioPlot(
        description="Candidate divided by baseline. "
        + "; ".join(_in_words(each) for each in intervals)
        + ".",
        rows=rows,
        ticks=tuple(
            Tick(_place(math.log(value), low, high), f"{value:g}\N{MULTIPLICATION SIGN}")
            for value in _ratio_ticks(math.exp(low), math.exp(high))
        ),
        one_x=_place(0.0, low, high),
        axis_y=axis_y,
        height=axis_y + 24,
    )


def _in_words(interval: RatioInterval) -> str:
    ratio = f"{_METRIC_WORDS[interval.metric]} {interval.ratio:.3f}"
    if interval.lower is None or interval.upper is None:
        return f"{ratio}, no interval"
    return f"{ratio}, between {interval.lower:.3f} and {interval.upper:.3f}"


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    return low - pad, high + pad


def _place(value: float, low: float, high: float) -> float:
    return round(_LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low), 2)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers inside the range, at most six."""
    raw = (high - low) / _WANTED_TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
    first = math.ceil(low / step)
    last = math.floor(high / step)
    digits = max(0, 2 - math.floor(math.log10(step)))
    return [round(number * step, digits) for number in range(first, last + 1)]


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Round numbers inside a range of ratios, at most six, apart on an axis of logarithms."""
    if high / low <= _NARROW_RATIO:
        return _ticks(low, high)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = range(first, last + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = [float(f"{digit}e{power}") for power in decades for digit in digits]
        found = [value for value in found if low <= value <= high]
        if len(found) <= _MOST_TICKS:
            return found
    step = -(-len(found) // _MOST_TICKS)
    # So that 1, where both arms are equal, keeps its mark.
    return [value for value in found if round(math.log10(value)) % step == 0]
