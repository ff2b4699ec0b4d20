"""The one place that turns an error into words on stderr and an exit code."""

import os
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path

import typer

from k3runner.exit_code import ExitCode
from k3runner.visible import visible

__all__ = ["failure_code", "finding_lines"]


def failure_code(error: Exception) -> ExitCode:
    """Say what went wrong and what to do next on stderr, and return the exit code."""
    # Imported here so that `--help` does not pay for the records.
    from k3bundle.errors import BundleError  # noqa: PLC0415
    from k3runner.errors import RefusedError, RunnerError  # noqa: PLC0415

    if isinstance(error, typer.TyperException):
        # Only some of typer's errors know the command they happened in.
        where = getattr(getattr(error, "ctx", None), "command_path", "k3-eval")
        _say(f"{error.format_message().rstrip('.')}. `{where} --help` shows what there is.")
        return ExitCode.USAGE
    if isinstance(error, RunnerError):
        if isinstance(error, RefusedError):
            _say_lines(finding_lines(error.findings))
        _say(f"{error.problem} {error.hint}".rstrip())
        return error.exit_code
    if isinstance(error, BundleError):
        _say_lines(finding_lines(error.findings))
        _say("The bundle is refused. Take the file as the runner wrote it, or make it again.")
        return ExitCode.REFUSED
    return _internal(error)


def finding_lines(findings: "tuple[object, ...]") -> list[str]:
    """Return two lines for each finding: code and place, then why and what to do."""
    from k3bundle.finding import Finding  # noqa: PLC0415

    lines: list[str] = []
    for finding in findings:
        if isinstance(finding, Finding):
            lines.append(f"  [{visible(finding.code)}] {visible(finding.where)}")
            lines.append(f"      {visible(finding.why)} {visible(finding.hint)}")
    return lines


def _internal(error: Exception) -> ExitCode:
    trace = "".join(traceback.format_exception(error))
    where = _write_trace(trace)
    _say(
        f"k3-eval itself failed with {type(error).__name__}: {visible(str(error))[:300]} "
        f"This is a defect; report it with the trace in {where}."
    )
    return ExitCode.INTERNAL


def _write_trace(trace: str) -> Path:
    """Write a trace into the folder of runs, or where temporary files go when that fails."""
    from k3runner.settings import resolve_runs  # noqa: PLC0415

    name = f"trace-{datetime.now(UTC):%Y%m%dT%H%M%S%f}.txt"
    for folder in (resolve_runs(None, os.environ), Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(trace, "utf-8")
        except OSError:
            continue
        return folder / name
    typer.echo(trace, err=True)
    return Path("the lines above")


def _say(sentence: str) -> None:
    typer.echo(f"k3-eval: {sentence}", err=True)


def _say_lines(lines: list[str]) -> None:
    for line in lines:
        typer.echo(line, err=True)
