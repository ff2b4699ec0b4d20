"""Runs an evaluation under a display and says on stdout, in one JSON line, what came out."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import typer

from k3runner.display.choice import choose_display
from k3runner.events import Event, RunStarted
from k3runner.exit_code import ExitCode
from k3runner.run import RunResult

__all__ = ["verdict_code", "watched"]


def watched(
    action: Callable[[Callable[[Event], None]], RunResult], *, events: bool, plain: bool
) -> ExitCode:
    """Run `action` with a display listening, print the result line, return the exit code.

    Args:
        action: Gets the function that takes events, returns the result.
        events: Print every event as a JSON line on stdout.
        plain: One line per event on stderr, also on a terminal.
    """
    display = choose_display(
        events=events, plain=plain, stdout=sys.stdout, stderr=sys.stderr, clock=time.monotonic
    )
    folders: list[Path] = []

    def emit(event: Event) -> None:
        if isinstance(event, RunStarted):
            folders.append(event.run_folder)
        display.show(event)

    try:
        with display:
            result = action(emit)
    except KeyboardInterrupt:
        typer.echo(f"k3-eval: {_stopped(folders)}", err=True)
        return ExitCode.INTERRUPTED
    typer.echo(json.dumps(_result_line(result, events=events), ensure_ascii=False))
    return verdict_code(result.verdict.status)


def verdict_code(status: str) -> ExitCode:
    """Return the exit code that a verdict stands for."""
    if status == "PASS":
        return ExitCode.PASS
    return ExitCode.FAIL if status == "FAIL" else ExitCode.NOT_CONCLUSIVE


def _stopped(folders: list[Path]) -> str:
    if not folders:
        return "Stopped before anything was measured. Nothing is left behind."
    return (
        "Stopped; no engine is left running and what was finished is kept. "
        f"Go on with `k3-eval resume {folders[-1]}`."
    )


def _result_line(result: RunResult, *, events: bool) -> dict[str, str]:
    line = {
        "verdict": result.verdict.status,
        "bundle_path": str(result.bundle_path),
        "bundle_sha256": result.bundle_sha256,
        "run_folder": str(result.run_folder),
    }
    return {"event": "result", **line} if events else line
