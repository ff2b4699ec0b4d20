"""The report as Markdown: a section for a pull request. Text from elsewhere is escaped."""

from collections.abc import Mapping, Sequence
from typing import Final

from k3runner.report.markdown_parts import measured_parts
from k3runner.report.markdown_table import details, escape_markdown, markdown_table
from k3runner.report.view import CellRow, ReportView
from k3runner.status_mark import mark_of
from k3runner.visible import visible

__all__ = ["render_markdown"]

_LONGEST: Final = 60_000
"""Characters; forges take 65,536 for one text, and somebody may write around this one."""


def render_markdown(view: ReportView) -> str:
    """Return the report as GitHub-flavoured Markdown.

    A forge takes no text beyond a length, so where all of it would be longer the folded parts of
    measurements are left out from the longest down, and named.
    """
    parts = dict(measured_parts(view))
    parts["Cells"] = _cells(view.cells)
    left_out: list[str] = []
    while len(text := _written(view, parts, left_out)) > _LONGEST and parts:
        longest = max(parts, key=lambda title: len("\n".join(parts[title])))
        left_out.append(longest)
        del parts[longest]
    return text


def _written(view: ReportView, parts: Mapping[str, list[str]], left_out: Sequence[str]) -> str:
    mark = mark_of(view.status)
    lines = [
        f"## k3-eval {escape_markdown(_tier(view))}: {mark.glyph} {mark.word}",
        "",
        f"> {escape_markdown(view.sentence)}",
        "",
        f"{escape_markdown(view.repository)} \\#{view.pull_request} at `{view.commit_sha}`, "
        f"subject {escape_markdown(view.subject)}."
        + (" The run was interrupted and resumed." if view.resumed else ""),
        f"**{escape_markdown(view.trust.capitalize())}.** {escape_markdown(view.trust_sentence)}",
        "",
        *_claims(view),
        "",
        *_headline(view),
        *(line for title, body in parts.items() for line in details(title, body)),
        *_omissions(left_out),
        *details("What this run cannot show", [f"- {escape_markdown(x)}" for x in view.limits]),
        *details("What ran", _facts(view)),
        *details("Do it again", _commands(view)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _tier(view: ReportView) -> str:
    """The tier, and whether the plan is one of that tier."""
    return f"{view.tier}, with less than the tier asks for" if view.looser else view.tier


def _omissions(left_out: Sequence[str]) -> list[str]:
    if not left_out:
        return []
    return [f"Too long for this section, and in the report's page: {', '.join(left_out)}.", ""]


def _claims(view: ReportView) -> list[str]:
    rows = []
    for claim in view.claims:
        mark = mark_of(claim.status)
        rows.append(
            (f"**{claim.name}**", f"{mark.glyph} {mark.word}", escape_markdown(claim.sentence))
        )
    return markdown_table(("Claim", "Result", "Finding"), rows)


def _headline(view: ReportView) -> list[str]:
    if not view.headline:
        return []
    rows = [
        (
            escape_markdown(number.label),
            escape_markdown(str(number.quantity)),
            f"`{number.cell_id}`" if number.cell_id else "whole run",
        )
        for number in view.headline
    ]
    return [*markdown_table((f"Number ({escape_markdown(view.trust)})", "Value", "Cell"), rows), ""]


def _cells(cells: Sequence[CellRow]) -> list[str]:
    rows = []
    for cell in cells:
        mark = mark_of(cell.status)
        numbers = ", ".join(f"{label} {value}" for label, value in cell.numbers)
        rows.append(
            (
                f"`{cell.cell_id}`",
                f"{mark.glyph} {mark.word}",
                escape_markdown(cell.reason),
                escape_markdown(numbers),
            )
        )
    return markdown_table(("Cell", "Result", "Why", "Numbers"), rows)


def _facts(view: ReportView) -> list[str]:
    rows = [
        (escape_markdown(group.title), escape_markdown(label), escape_markdown(value))
        for group in view.facts
        for label, value in group.facts
    ]
    rows.append(("Bundle", "digest", view.seal.bundle_sha256 if view.seal else "not sealed"))
    return markdown_table(("", "", ""), rows)


def _commands(view: ReportView) -> list[str]:
    lines: list[str] = []
    for purpose, command in view.commands:
        lines += [f"{escape_markdown(purpose)}:", "", "```console", f"$ {visible(command)}", "```"]
    return lines
