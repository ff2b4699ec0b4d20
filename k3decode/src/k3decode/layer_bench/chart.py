"""`python -m k3decode.layer_bench.chart RESULTS OUT`: a layer's time, drawn and in a table.

RESULTS holds lines of `python -m k3decode.layer_bench.versus_stock`, which know what the other
engine takes, or of `python -m k3decode.layer_bench`; beside those, `--stock FILE` may say it: a
JSON object {"label": "...", "us": {"1": 101.0, ...}} of another run. Written are OUT.svg and
OUT.md, microseconds per layer against batch, with the floor of the bytes. The same input gives the
same bytes.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["LayerPoint", "main", "picture", "table"]

_WIDTH, _HEIGHT = 720, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 44, 52
_TICKS_US = (50, 100, 200, 400, 800)
_SERIES = (("floor", "#888888"), ("this path", "#0b6e4f"), ("stock", "#b4451f"))


@dataclass(frozen=True)
class LayerPoint:
    """One batch."""

    rows: int
    floor_us: float
    ours_us: float
    low_us: float
    high_us: float
    distinct_experts: float
    stock_us: float | None
    ratio: tuple[float, float, float] | None = None
    """The other engine's time over ours and its interval, if both ran in one run."""


def points(
    records: Sequence[Mapping[str, Any]], stock: Mapping[str, float]
) -> tuple[LayerPoint, ...]:
    """What the lines of results say, by batch."""
    found = [
        LayerPoint(
            rows=record["rows"],
            floor_us=record["floor_us"],
            ours_us=record["median_us"],
            low_us=record["low_us"],
            high_us=record["high_us"],
            distinct_experts=record["distinct_experts"],
            stock_us=record.get("stock_us", stock.get(str(record["rows"]))),
            ratio=_ratio(record),
        )
        for record in records
        # Lines with other draws stand beside those that are drawn here.
        if "median_us" in record and "in_place_of" not in record
    ]
    return tuple(sorted(found, key=lambda point: point.rows))


def _ratio(record: Mapping[str, Any]) -> tuple[float, float, float] | None:
    if "ratio" not in record:
        return None
    return record["ratio"], record["ratio_low"], record["ratio_high"]


def table(found: Sequence[LayerPoint], label: str) -> str:
    """Markdown, one row for each batch."""
    lines = [
        "| Rows | Experts | Floor, us | This path, us | 95 % | Over the floor "
        f"| {label}, us | Ratio |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for p in found:
        stock = "" if p.stock_us is None else f"{p.stock_us:.0f}"
        ratio = "" if p.stock_us is None else f"{p.stock_us / p.ours_us:.2f}"
        if p.ratio is not None:
            ratio = "{:.2f} ({:.2f} to {:.2f})".format(*p.ratio)
        lines.append(
            f"| {p.rows} | {p.distinct_experts:.0f} | {p.floor_us:.1f} | {p.ours_us:.1f} "
            f"| {p.low_us:.1f} to {p.high_us:.1f} | {p.ours_us / p.floor_us:.2f} | {stock} "
            f"| {ratio} |"
        )
    return "\n".join(lines) + "\n"


def picture(found: Sequence[LayerPoint], label: str) -> str:
    """SVG with logarithmic axes."""
    series = {
        "floor": [(p.rows, p.floor_us) for p in found],
        "this path": [(p.rows, p.ours_us) for p in found],
        "stock": [(p.rows, p.stock_us) for p in found if p.stock_us is not None],
    }
    values = [us for line in series.values() for _, us in line]
    most_rows = max(p.rows for p in found)
    low, high = math.log(min(values) / 1.2), math.log(max(values) * 1.2)

    def place(rows: int, us: float) -> tuple[float, float]:
        across = math.log(rows) / max(math.log(most_rows), 1e-9)
        up = (math.log(us) - low) / (high - low)
        return (
            round(_LEFT + across * (_WIDTH - _LEFT - _RIGHT), 1),
            round(_HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM), 1),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">Microseconds per layer against rows</text>',
    ]
    for us in _TICKS_US:
        if low <= math.log(us) <= high:
            _, y = place(1, us)
            parts.append(
                f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="#dddddd"/>'
                f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{us}</text>'
            )
    for rows in (p.rows for p in found if p.rows & (p.rows - 1) == 0):
        x, _ = place(rows, math.exp(low))
        parts.append(
            f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{rows}</text>'
        )
    names = {"stock": label}
    for turn, (name, colour) in enumerate(_SERIES):
        parts += _line([place(*one) for one in series[name]], colour)
        x = _LEFT + 180 * turn
        parts.append(
            f'<text x="{x}" y="{_HEIGHT - 10}" fill="{colour}">{names.get(name, name)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(places: Sequence[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{x},{y}" for x, y in places)
    dots = [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in places]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m k3decode.layer_bench.chart", description=__doc__
    )
    parser.add_argument("results", type=Path, help="lines of a measurement")
    parser.add_argument("out", type=Path, help="OUT.svg and OUT.md are written")
    parser.add_argument("--stock", type=Path, help="what another engine took in another run")
    parser.add_argument("--label", default="vLLM 0.33.0", help="name of the other engine")
    options = parser.parse_args(arguments)
    records = [json.loads(line) for line in options.results.read_text().splitlines()]
    stock = {"us": {}, "label": options.label}
    if options.stock is not None:
        stock |= json.loads(options.stock.read_text())
    found = points(records, stock["us"])
    if not found:
        parser.error(f"expected lines of results in {options.results}, found none")
    options.out.with_suffix(".svg").write_text(picture(found, stock["label"]))
    options.out.with_suffix(".md").write_text(table(found, stock["label"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
