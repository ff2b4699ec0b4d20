"""Charts of the machine and of throughput against interactivity, as SVG. Pure.

Horizontal places are percentages, so that a chart fills any width; see `svg.py`.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from k3runner.report import svg
from k3runner.report.machine import BootExtent, MachineChart
from k3runner.report.plots import arm_mark, nice_ceiling
from k3runner.report.rates import RateChart, RateLine
from k3runner.wording import digits

__all__ = ["extent_chart", "rate_chart"]

_EXTENT_HEIGHT: Final = 150
_TOP: Final = 18.0
_BOTTOM: Final = 118.0
_LEFT: Final = 13.0
_RIGHT: Final = 98.0
_FEW_BOOTS: Final = 12
"""Up to so many boots each has its number below it."""
_RATE_HEIGHT: Final = 260
_RATE_TOP: Final = 20.0
_RATE_BOTTOM: Final = 216.0
_RATE_LEFT: Final = 8.0
_RATE_RIGHT: Final = 96.0
_NARROW_PERCENT: Final = 5.0
_LOW_PIXELS: Final = 12.0
"""Points closer than both on their axes share the space for their labels."""
_GAP: Final = "\N{EN SPACE}\N{THIN SPACE}"
"""Between a mark and its label: half a mark and a little more."""


def extent_chart(chart: MachineChart) -> Markup:
    """Return one quantity over the boots: a line from lowest to highest, a mark in the middle."""
    highest = max((boot.high for boot in chart.boots), default=0.0)
    top = nice_ceiling(max(highest, chart.limit or 0.0))
    parts = _scale(top)
    if chart.limit is not None:
        at = _extent_y(chart.limit, top)
        parts.append(svg.line(f"{_LEFT}%", at, f"{_RIGHT}%", at, "limit"))
        parts.append(svg.text(f"{_RIGHT}%", at - 4, "limit", "tick", "end"))
    count = max(1, len(chart.boots))
    for index, boot in enumerate(chart.boots):
        x = svg.percent_of((index + 0.5) / count, _LEFT, _RIGHT)
        parts += _extent_of(boot, x, top)
        if count <= _FEW_BOOTS or index % (count // _FEW_BOOTS + 1) == 0:
            parts.append(svg.text(x, _BOTTOM + 18, str(boot.slot), "tick", "middle"))
    spoken = ", ".join(
        f"boot {boot.slot} {boot.arm} {digits(boot.low)} to {digits(boot.high)}"
        for boot in chart.boots
    )
    return svg.chart(f"{chart.name} in {chart.unit}: {spoken}", _EXTENT_HEIGHT, parts)


def _scale(top: float) -> list[Markup]:
    parts = []
    for share in (0.0, 0.5, 1.0):
        place = _extent_y(top * share, top)
        parts.append(svg.line(f"{_LEFT}%", place, f"{_RIGHT}%", place, "grid"))
        parts.append(svg.text(f"{_LEFT - 1.5}%", place + 4, digits(top * share), "tick", "end"))
    return parts


def _extent_y(value: float, top: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * value / top


def _extent_of(boot: BootExtent, x: str, top: float) -> list[Markup]:
    return [
        svg.line(x, _extent_y(boot.low, top), x, _extent_y(boot.high, top), f"span {boot.arm}"),
        arm_mark(boot.arm, x, _extent_y(boot.middle, top)),
    ]


def rate_chart(chart: RateChart) -> Markup:
    """Return throughput against interactivity: one line for each arm, a point for each cell."""
    points = [point for line in chart.lines for point in line.points]
    right = nice_ceiling(max((point.user_tokens_per_s for point in points), default=1.0))
    top = nice_ceiling(max((point.throughput_tokens_per_s for point in points), default=1.0))
    parts = _axes(right, top)
    for line in chart.lines:
        parts += _rate_line(line, right, top)
    spoken = "; ".join(
        f"{line.arm} "
        + ", ".join(
            f"{point.concurrency} in flight {digits(point.user_tokens_per_s)} and "
            f"{digits(point.throughput_tokens_per_s)}"
            for point in line.points
        )
        for line in chart.lines
    )
    what = f"Throughput against tokens per second and user, {chart.deployment}, {chart.load}"
    return svg.chart(f"{what}: {spoken}", _RATE_HEIGHT, parts)


def _axes(right: float, top: float) -> list[Markup]:
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _rate_y(top * share, top)
        parts.append(svg.line(f"{_RATE_LEFT}%", y, f"{_RATE_RIGHT}%", y, "grid"))
        parts.append(svg.text(f"{_RATE_LEFT - 1}%", y + 4, digits(top * share), "tick", "end"))
        x = _rate_x(right * share, right)
        parts.append(svg.text(x, _RATE_BOTTOM + 16, digits(right * share), "tick", "middle"))
    parts.append(svg.text(f"{_RATE_RIGHT}%", _RATE_BOTTOM + 34, "tokens/s/user", "tick", "end"))
    return parts


def _rate_x(value: float, right: float) -> str:
    return svg.percent_of(value / right, _RATE_LEFT, _RATE_RIGHT)


def _rate_y(value: float, top: float) -> float:
    return _RATE_BOTTOM - (_RATE_BOTTOM - _RATE_TOP) * value / top


def _rate_line(line: RateLine, right: float, top: float) -> list[Markup]:
    places = [
        (
            _rate_x(point.user_tokens_per_s, right),
            _rate_y(point.throughput_tokens_per_s, top),
            str(point.concurrency),
        )
        for point in line.points
    ]
    parts = [
        svg.line(x1, y1, x2, y2, f"rate {line.arm}")
        for (x1, y1, _), (x2, y2, _) in pairwise(places)
    ]
    parts += [arm_mark(line.arm, x, y) for x, y, _ in places]
    # Labels stand beside the marks, on the side that the other arm's line is not on.
    right_of = line.arm == "candidate"
    for x, y, label in _labelled(places):
        shown = f"{_GAP}{label}" if right_of else f"{label}{_GAP}"
        side = "start" if right_of else "end"
        parts.append(svg.text(x, y + 4, shown, f"arm {line.arm}", side))
    return parts


def _labelled(places: Sequence[tuple[str, float, str]]) -> list[tuple[str, float, str]]:
    """Places whose labels do not run into each other; the first of a crowd speaks for it."""
    kept: list[tuple[str, float, str]] = []
    for place in places:
        x = float(place[0].rstrip("%"))
        if all(
            abs(x - float(other[0].rstrip("%"))) >= _NARROW_PERCENT
            or abs(place[1] - other[1]) >= _LOW_PIXELS
            for other in kept
        ):
            kept.append(place)
    return kept
