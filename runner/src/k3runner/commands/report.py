"""`k3-eval report`: a run as a page, as Markdown, as JSON, as CSV."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "report"]

HELP: Final = f"""Write a report of a bundle or of a run folder.

The verdict is derived again from the raw records; nothing that a bundle claims is taken over. A
bundle with findings is refused. `-` as FILE means stdout. Without a flag the page is written next
to the bundle, or into the run folder, as report.html.

\b
Example:
  k3-eval report run.k3b --html report.html
  k3-eval report run.k3b --markdown - >> pull-request.md
  k3-eval report run.k3b --csv numbers.csv --conditions conditions.html

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.REFUSED, ExitCode.ENVIRONMENT)}
"""


def report(
    source: Annotated[
        Path,
        typer.Argument(metavar="BUNDLE|RUN_FOLDER", help="A sealed bundle, or a run's folder."),
    ],
    *,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One page that needs nothing else.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A section for a pull request.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Everything, for a program.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Every number, one a line.")
    ] = None,
    conditions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Under which conditions the path applies: a page for FILE.html, else Markdown.",
        ),
    ] = None,
) -> None:
    """Write the report."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3runner.errors import UsageError  # noqa: PLC0415
    from k3runner.report.files import ReportFiles, write_reports  # noqa: PLC0415
    from k3runner.report.source import load_run  # noqa: PLC0415

    files = ReportFiles(html, markdown, json_file, csv_file, conditions)
    problem = _target_problem(source, (html, markdown, json_file, csv_file, conditions))
    if problem is not None:
        raise UsageError(problem, "Give each form a file of its own.")
    if not files.any:
        page = (source if source.is_dir() else source.absolute().parent) / "report.html"
        files = ReportFiles(html=page)
    for path in write_reports(load_run(source), files, echo=typer.echo):
        typer.echo(f"k3-eval: Wrote {path}.", err=True)


def _target_problem(source: Path, targets: Sequence[Path | None]) -> str | None:
    """Why these files cannot be written: one twice, or the bundle itself."""
    named = [target for target in targets if target is not None]
    places = [target if str(target) == "-" else target.resolve() for target in named]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None:
        return f"Two forms of the report cannot both be written to {twice}."
    if source.resolve() in places:
        return f"{source} is what the report is made of and must stay as it is."
    return None
