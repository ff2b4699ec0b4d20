"""The report's charts as SVG. Pure: chart data in, markup out.

Arms differ in shape as well as in colour: the baseline is a hollow circle, the candidate a filled
diamond. Axes of measured values begin at zero, so that noise does not look like an effect.
"""

import math
from collections.abc import Callable
from typing import Final

from markupsafe import Markup

from k3runner.report import svg
from k3runner.report.view import CoverageBar, IntervalRow, ServingChart, TokenRow
from k3runner.wording import digits, percent, plural

__all__ = [
    "arm_mark",
    "boot_dots",
    "coverage_bar",
    "nice_ceiling",
    "ratio_axis",
    "ratio_interval",
    "share_bar",
    "token_row",
]

_LETTERS: Final = {"baseline": "A", "candidate": "B"}
_DOTS_HEIGHT: Final = 168
_TOP, _BOTTOM = 26.0, 132.0
_LEFT, _RIGHT = 13.0, 95.0
_LEAST_REACH: Final = math.log(1.1)
_MOST_REACH: Final = math.log(4.0)


def boot_dots(plot: ServingChart) -> Markup:
    """Return one metric over the boots in boot order; a thin line joins the boots of a pair."""
    values = [dot.value for dot in plot.dots if dot.value is not None]
    top = nice_ceiling(max(values, default=1.0))
    count = len(plot.dots)

    def x(index: int) -> str:
        return svg.percent_of((index + 0.5) / max(1, count), _LEFT, _RIGHT)

    def y(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / top

    parts = []
    for share in (0.0, 0.5, 1.0):
        place = y(top * share)
        parts.append(svg.line(f"{_LEFT}%", place, "100%", place, "grid"))
        label = digits(top * share)
        parts.append(svg.text(f"{_LEFT - 1.5}%", place + 4, label, "tick", "end"))
    parts += _pair_lines(plot, x, y)
    for index, dot in enumerate(plot.dots):
        letter = _LETTERS.get(dot.arm, "?")
        parts.append(svg.text(x(index), _BOTTOM + 20, letter, f"arm {dot.arm}", "middle"))
        parts.append(svg.text(x(index), _BOTTOM + 34, f"boot {dot.slot}", "tick", "middle"))
        if dot.value is None:
            parts.append(svg.text(x(index), _BOTTOM - 6, "none", "tick", "middle"))
            continue
        parts.append(arm_mark(dot.arm, x(index), y(dot.value)))
        parts.append(svg.text(x(index), y(dot.value) - 11, digits(dot.value), "value", "middle"))
    spoken = ", ".join(
        f"boot {dot.slot} {dot.arm} "
        + ("no value" if dot.value is None else f"{digits(dot.value)} {plot.unit}")
        for dot in plot.dots
    )
    return svg.chart(f"{plot.metric} of {plot.cell_id}: {spoken}", _DOTS_HEIGHT, parts)


def _pair_lines(
    plot: ServingChart, x: Callable[[int], str], y: Callable[[float], float]
) -> list[Markup]:
    lines = []
    for first, dot in enumerate(plot.dots):
        for second in range(first + 1, len(plot.dots)):
            other = plot.dots[second]
            if other.pair != dot.pair or dot.value is None or other.value is None:
                continue
            lines.append(svg.line(x(first), y(dot.value), x(second), y(other.value), "pair"))
    return lines


def arm_mark(arm: str, x: str, y: float) -> Markup:
    """Return the mark of an arm: shape and colour."""
    if arm == "candidate":
        return svg.diamond(x, y, 6.5, "mark candidate")
    return svg.circle(x, y, 5.0, "mark baseline")


def ratio_interval(row: IntervalRow, reach: float, threshold: float | None = None) -> Markup:
    """Return a ratio with its bounds on a logarithmic axis around 1.

    Args:
        row: The ratio.
        reach: Half the axis, as a log ratio; shared by all rows, so that they compare.
        threshold: What the bounds are held against; None: nothing is drawn for it.
    """
    spread = _spread(reach)

    def x(ratio: float) -> str:
        share = 0.5 + math.log(ratio) / spread / 2
        return svg.percent_of(min(max(share, 0.0), 1.0), 4, 96)

    parts = [svg.line("4%", 15, "96%", 15, "grid"), svg.line(x(1), 3, x(1), 27, "one")]
    if threshold is not None and threshold != 1:
        parts.append(svg.line(x(threshold), 5, x(threshold), 25, "limit"))
    if row.lower is not None and row.upper is not None:
        parts.append(svg.line(x(row.lower), 15, x(row.upper), 15, "interval"))
        for bound, outside, glyph in (
            (
                row.lower,
                math.log(row.lower) < -spread,
                "\u2039",
            ),
            (
                row.upper,
                math.log(row.upper) > spread,
                "\u203a",
            ),
        ):
            if outside:
                parts.append(svg.text(x(bound), 20, glyph, "outside", "middle"))
            else:
                parts.append(svg.line(x(bound), 9, x(bound), 21, "interval"))
    parts.append(svg.diamond(x(row.ratio), 15, 5.5, "mark candidate"))
    return svg.chart(f"{row.metric} of {row.cell_id}: {_interval_words(row)}", 30, parts)


def ratio_axis(reach: float) -> tuple[float, float]:
    """Return the ratios at both ends of the axis of `ratio_interval`."""
    return math.exp(-_spread(reach)), math.exp(_spread(reach))


def _spread(reach: float) -> float:
    return min(max(reach, _LEAST_REACH), _MOST_REACH)


def _interval_words(row: IntervalRow) -> str:
    if row.lower is None or row.upper is None:
        return f"ratio {row.ratio:.3f}, no bounds from {plural(row.pairs, 'pair')}"
    return f"ratio {row.ratio:.3f}, bounds {row.lower:.3f} and {row.upper:.3f}"


def coverage_bar(bar: CoverageBar, minimum: float) -> Markup:
    """Return decode steps on the expected path as a part of all; the rest is outlined."""
    if not bar.available or bar.decode_steps == 0:
        words = "no decode step" if bar.available else "not reported by the engine"
        parts = [svg.rect("0%", 4, "100%", 12, "bar none")]
        return svg.chart(f"{bar.cell_id}, {bar.arm}: {words}", 20, parts)
    share = bar.expected_steps / bar.decode_steps
    split = svg.percent_of(share)
    parts = [svg.rect("0%", 4, split, 12, f"bar {bar.arm}")]
    if share < 1:
        parts.append(svg.rect(split, 4, svg.percent_of(1 - share), 12, "bar other"))
    parts.append(svg.line(svg.percent_of(minimum), 1, svg.percent_of(minimum), 19, "gate"))
    words = f"{percent(share)} of {plural(bar.decode_steps, 'decode step')} on {bar.expected_path}"
    return svg.chart(f"{bar.cell_id}, {bar.arm}: {words}; gate {percent(minimum)}", 20, parts)


def share_bar(share: float, name: str) -> Markup:
    """Return a share as a bar with its number; beyond the whole it fills the bar."""
    filled = svg.percent_of(min(max(share, 0.0), 1.0), 0, 60)
    parts = [
        svg.rect("0%", 4, "60%", 12, "bar none"),
        svg.rect("0%", 4, filled, 12, "bar candidate"),
        svg.text("64%", 15, percent(share), "tick"),
    ]
    return svg.chart(f"{name}: {percent(share)} of the speed of light", 20, parts)


def token_row(row: TokenRow, last_ms: float) -> Markup:
    """Return one request's tokens as ticks on a time axis that ends at `last_ms`."""
    parts = [svg.line("0%", 13, "100%", 13, "grid")]
    for at_ms, tokens in zip(row.at_ms, row.tokens, strict=True):
        x = svg.percent_of(at_ms / last_ms if last_ms else 0.0, 0, 99.5)
        tall = 5.0 if tokens == 1 else 9.0
        parts.append(svg.line(x, 13 - tall, x, 13 + tall, f"token {row.arm}"))
    first = f"first after {digits(row.at_ms[0])} ms" if row.at_ms else "no token"
    words = f"boot {row.slot}, {row.arm}: {plural(sum(row.tokens), 'token')}, {first}"
    return svg.chart(words, 26, parts)


def nice_ceiling(value: float) -> float:
    """Return the smallest 1, 1.5, 2, 3, 4, 5, 6 or 8 times a power of ten that is >= `value`."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    return next(step * power for step in steps if step * power >= value * (1 - 1e-9))
