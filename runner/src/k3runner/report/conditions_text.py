"""The page of conditions as Markdown. Pure."""

from itertools import groupby

from k3runner.report.condition_state import STATES
from k3runner.report.conditions import ConditionsView, LoadRow
from k3runner.report.markdown_table import escape_markdown, markdown_table
from k3runner.status_mark import mark_of

__all__ = ["render_conditions_markdown"]


def render_conditions_markdown(view: ConditionsView) -> str:
    """Return the conditions as GitHub-flavoured Markdown."""
    mark = mark_of(view.status)
    claims = ", ".join(f"{name} {mark_of(status).word}" for name, status in view.claims)
    lines = [
        f"## Conditions of {escape_markdown(view.subject)}",
        "",
        f"{escape_markdown(view.repository)} \\#{view.pull_request} at `{view.commit_sha}`, tier "
        f"{escape_markdown(view.tier)}: {mark.glyph} {mark.word}. {escape_markdown(claims)}. "
        f"{escape_markdown(view.trust.capitalize())}.",
        *_only(view),
        "",
        *markdown_table(
            ("Condition", "Declared", "State", "Found"),
            [
                (
                    escape_markdown(line.dimension),
                    escape_markdown(line.declared),
                    f"{STATES[line.state].glyph} {STATES[line.state].words}",
                    escape_markdown(line.found),
                )
                for line in view.lines
            ],
        ),
        "",
        *_loads(view.loads),
        "### What these conditions cannot show",
        "",
        *(f"- {escape_markdown(limit)}" for limit in view.limits),
        "",
        f"Plan `{view.plan_sha256}`, bundle `{view.bundle_sha256 or 'not sealed'}`.",
    ]
    return "\n".join(lines).rstrip() + "\n"


def _only(view: ConditionsView) -> list[str]:
    if not view.only:
        return []
    names = ", ".join(view.only)
    return ["", f"**Restricted to {escape_markdown(names)} by request: nothing else was tried.**"]


def _loads(loads: tuple[LoadRow, ...]) -> list[str]:
    rows = []
    for row in loads:
        for state, cells in groupby(row.cells, key=lambda cell: cell[1].state):
            found = list(cells)
            rows.append(
                (
                    escape_markdown(row.deployment),
                    escape_markdown(row.load),
                    ", ".join(escape_markdown(label) for label, _ in found),
                    f"{STATES[state].glyph} {STATES[state].words}",
                    escape_markdown(found[0][1].detail),
                )
            )
    if not rows:
        return []
    head = ("Deployment", "Load", "Requests in flight", "State", "First of them")
    return [*markdown_table(head, rows), ""]
