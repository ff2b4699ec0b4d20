"""Writes the forms of a report to files or to stdout."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from k3runner.errors import MachineError
from k3runner.report.html import render_html
from k3runner.report.json_form import render_json
from k3runner.report.markdown import render_markdown
from k3runner.report.view import ReportView

__all__ = ["write_reports"]

_STDOUT: Final = Path("-")


def write_reports(
    view: ReportView,
    *,
    html: Path | None,
    markdown: Path | None,
    json_file: Path | None,
    echo: Callable[[str], None],
) -> list[Path]:
    """Write each form that has a path, and return the files written.

    Args:
        view: What to report.
        html: Where the page goes; `-` is stdout, None leaves it out.
        markdown: Where the Markdown goes.
        json_file: Where the JSON goes.
        echo: Writes to stdout.

    Raises:
        MachineError: A file cannot be written.
    """
    forms: tuple[tuple[Path | None, Callable[[ReportView], str]], ...] = (
        (html, render_html),
        (markdown, render_markdown),
        (json_file, render_json),
    )
    written: list[Path] = []
    for path, render in forms:
        if path is None:
            continue
        text = render(view)
        if path == _STDOUT:
            echo(text)
            continue
        try:
            path.write_text(text, "utf-8")
        except OSError as error:
            raise MachineError(
                f"Cannot write the report to {path}: {error.strerror}.",
                "Give a path in a folder that exists and that you may write to.",
            ) from error
        written.append(path)
    return written
