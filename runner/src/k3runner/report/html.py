"""The report as one HTML file that needs nothing else: no script, no font, no request."""

import base64
import hashlib
import math
from collections.abc import Sequence
from importlib import resources
from itertools import groupby
from typing import Final, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from k3runner.report import machine_plots, plots
from k3runner.report.condition_state import STATES
from k3runner.report.conditions import ConditionsView, LoadRow
from k3runner.report.view import CoverageBar, IntervalRow, RatioRow, ReportView, ServingChart
from k3runner.status_mark import mark_of
from k3runner.visible import visible
from k3runner.wording import count_text, digits, effect, percent

__all__ = ["render_conditions_html", "render_html"]

T = TypeVar("T", ServingChart, IntervalRow, CoverageBar)
D = TypeVar("D", RatioRow, LoadRow)

_STYLE: Final = "report.css"


def render_html(view: ReportView) -> str:
    """Return the page. Every text in it is escaped, and acting characters are named."""
    forest_reach = _reach([row.interval for row in view.ratios])
    return _render(
        "report.html.j2",
        view=view,
        chart_groups=_by_cell(view.charts),
        interval_groups=_by_cell(view.intervals),
        coverage_groups=_by_cell(view.coverage),
        ratio_groups=_by_deployment(view.ratios),
        forest_reach=forest_reach,
        forest_axis=plots.ratio_axis(forest_reach),
        reach=_reach(view.intervals),
        axis=plots.ratio_axis(_reach(view.intervals)),
        last_ms=max((at for row in view.tokens for at in row.at_ms), default=0.0),
    )


def render_conditions_html(view: ConditionsView) -> str:
    """Return the page of conditions, made like the report."""
    used = {condition.state for row in view.loads for _, condition in row.cells}
    return _render(
        "conditions.html.j2",
        view=view,
        states=STATES,
        used=used,
        load_groups=_by_deployment(view.loads),
    )


def _render(template: str, **values: object) -> str:
    environment = Environment(
        loader=PackageLoader("k3runner.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    style = (resources.files("k3runner.report.templates") / _STYLE).read_text("utf-8")
    environment.globals.update(
        mark_of=mark_of,
        percent=percent,
        effect=effect,
        digits=digits,
        count=count_text,
        plots=plots,
        machine_plots=machine_plots,
        style=Markup(style),  # noqa: S704
        style_hash=_csp_hash(style),
    )
    # Globals and not variables of the template, so that what a template includes sees them too.
    return environment.get_template(template).render(values)


def _finalize(value: object) -> object:
    """Name acting characters in every text that a template puts out; markup is made here."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _csp_hash(style: str) -> str:
    digest = hashlib.sha256(style.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _by_cell(rows: Sequence[T]) -> list[tuple[str, list[T]]]:
    return [(cell, list(group)) for cell, group in groupby(rows, key=lambda row: row.cell_id)]


def _by_deployment(rows: Sequence[D]) -> list[tuple[str, list[D]]]:
    found: dict[str, list[D]] = {}
    for row in rows:
        found.setdefault(row.deployment, []).append(row)
    return list(found.items())


def _reach(rows: Sequence[IntervalRow]) -> float:
    """Half the axis that shows every ratio and bound, as a log ratio."""
    values = [v for row in rows for v in (row.ratio, row.lower, row.upper) if v is not None]
    return max((abs(math.log(value)) for value in values), default=0.0) * 1.05
