"""Writes the forms of a report to files or to stdout."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3runner.errors import MachineError
from k3runner.report.build import build_view, trust_of
from k3runner.report.conditions import conditions_view
from k3runner.report.conditions_text import render_conditions_markdown
from k3runner.report.csv_form import render_csv
from k3runner.report.html import render_conditions_html, render_html
from k3runner.report.json_form import render_json
from k3runner.report.markdown import render_markdown
from k3runner.report.source import ReportedRun

__all__ = ["ReportFiles", "write_reports"]

_STDOUT: Final = Path("-")


@dataclass(frozen=True)
class ReportFiles:
    """Where each form goes; `-` is stdout, None leaves it out."""

    html: Path | None = None
    """The page."""
    markdown: Path | None = None
    """The section for a pull request."""
    json: Path | None = None
    """Everything that the page shows, for a program."""
    csv: Path | None = None
    """Every number, one a line."""
    conditions: Path | None = None
    """The page of conditions: a page where the name ends in `.html`, else Markdown."""

    @property
    def any(self) -> bool:
        """Whether some form is asked for."""
        return self != ReportFiles()


def write_reports(
    run: ReportedRun, files: ReportFiles, *, echo: Callable[[str], None]
) -> list[Path]:
    """Write each form that has a path, and return the files written.

    Args:
        run: What to report.
        files: Where to.
        echo: Writes to stdout.

    Raises:
        MachineError: A file cannot be written.
    """
    view = build_view(run.records, run.verdict, run.seal)
    forms: tuple[tuple[Path | None, Callable[[], str]], ...] = (
        (files.html, lambda: render_html(view)),
        (files.markdown, lambda: render_markdown(view)),
        (files.json, lambda: render_json(view)),
        (files.csv, lambda: render_csv(run.records, run.verdict, trust_of(run.seal)[0])),
        (files.conditions, lambda: _conditions(run, files.conditions)),
    )
    written: list[Path] = []
    for path, render in forms:
        if path is None:
            continue
        if path == _STDOUT:
            echo(render())
            continue
        try:
            path.write_text(render(), "utf-8")
        except OSError as error:
            raise MachineError(
                f"Cannot write the report to {path}: {error.strerror}.",
                "Give a path in a folder that exists and that you may write to.",
            ) from error
        written.append(path)
    return written


def _conditions(run: ReportedRun, path: Path | None) -> str:
    view = conditions_view(run.records, run.verdict, run.seal)
    page = path is not None and path.suffix == ".html"
    return render_conditions_html(view) if page else render_conditions_markdown(view)
