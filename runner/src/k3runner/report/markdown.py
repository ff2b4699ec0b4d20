"""The report as Markdown: a section for a pull request. Text from elsewhere is escaped."""

import re
from collections.abc import Sequence
from typing import Final

from k3runner.report.view import CellRow, ReportView
from k3runner.status_mark import mark_of
from k3runner.visible import visible

__all__ = ["escape_markdown", "render_markdown"]

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()#!|~$])")
_ENTITIES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "&#64;"))


def escape_markdown(text: str) -> str:
    """Return `text` so that it shows as it is: no markup, no mention, no link, no reference."""
    # Backslashes first: the entities that follow hold a `#` that must stay.
    shown = _SPECIAL.sub(r"\\\1", visible(text))
    for character, entity in _ENTITIES:
        shown = shown.replace(character, entity)
    # GitHub links bare addresses; an entity in the middle stops it and looks the same.
    return shown.replace("://", "&#58;//").replace("www.", "www&#46;")


def render_markdown(view: ReportView) -> str:
    """Return the report as GitHub-flavoured Markdown."""
    mark = mark_of(view.status)
    lines = [
        f"## k3-eval {escape_markdown(view.tier)}: {mark.glyph} {mark.word}",
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
        *_details("Cells", _cells(view.cells)),
        *_details("What this run cannot show", [f"- {escape_markdown(x)}" for x in view.limits]),
        *_details("What ran", _facts(view)),
        *_details("Do it again", _commands(view)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _claims(view: ReportView) -> list[str]:
    rows = []
    for claim in view.claims:
        mark = mark_of(claim.status)
        rows.append(
            (f"**{claim.name}**", f"{mark.glyph} {mark.word}", escape_markdown(claim.sentence))
        )
    return _table(("Claim", "Result", "Finding"), rows)


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
    return [*_table((f"Number ({escape_markdown(view.trust)})", "Value", "Cell"), rows), ""]


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
    return _table(("Cell", "Result", "Why", "Numbers"), rows)


def _facts(view: ReportView) -> list[str]:
    rows = [
        (escape_markdown(group.title), escape_markdown(label), escape_markdown(value))
        for group in view.facts
        for label, value in group.facts
    ]
    rows.append(("Bundle", "digest", view.seal.bundle_sha256 if view.seal else "not sealed"))
    return _table(("", "", ""), rows)


def _commands(view: ReportView) -> list[str]:
    lines: list[str] = []
    for purpose, command in view.commands:
        lines += [f"{escape_markdown(purpose)}:", "", "```console", f"$ {visible(command)}", "```"]
    return lines


def _details(title: str, body: list[str]) -> list[str]:
    if not body:
        return []
    return [f"<details><summary>{title}</summary>", "", *body, "", "</details>", ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]
