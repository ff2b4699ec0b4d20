"""How a report is written in Markdown: escaped text, tables, folded parts. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from k3runner.visible import visible

__all__ = ["details", "escape_markdown", "markdown_table"]

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


def details(title: str, body: Sequence[str]) -> list[str]:
    """Lines of a part that is folded until somebody asks; none without a body."""
    if not body:
        return []
    return [f"<details><summary>{title}</summary>", "", *body, "", "</details>", ""]


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; the values must be escaped already."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]
