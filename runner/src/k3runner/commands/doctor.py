"""`k3-eval doctor`: is this machine ready, and if not, what to do."""

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "doctor"]

HELP: Final = f"""Look at this machine, and say what a run would lack, with the remedy for each.

With --json the facts are printed too; save them, and `--facts FILE` judges them again anywhere,
which is how to ask for help with a machine that others cannot reach.

\b
Example:
  k3-eval doctor
  k3-eval doctor --json > doctor.json
  k3-eval doctor --facts doctor.json

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.ENVIRONMENT)}
"""


def doctor(
    *,
    engine_python: flags.EnginePython = None,
    model: flags.Model = None,
    runs: flags.Runs = None,
    key: flags.Key = None,
    registry: flags.Registry = None,
    facts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge these facts; probe nothing.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Judge the machine."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3runner.commands.doctor_text import (  # noqa: PLC0415
        answer_object,
        check_lines,
        facts_from_file,
        places_from_flags,
    )
    from k3runner.doctor.judgement import judge  # noqa: PLC0415
    from k3runner.doctor.probes import probe  # noqa: PLC0415

    if facts is None:
        found = probe(places_from_flags(engine_python, model, runs, key, registry))
    else:
        found = facts_from_file(facts)
    checks = judge(found)
    if as_json:
        typer.echo(json.dumps(answer_object(found, checks), ensure_ascii=False, indent=2))
    else:
        for line in check_lines(checks):
            typer.echo(line)
    if any(check.outcome == "problem" for check in checks):
        raise typer.Exit(ExitCode.ENVIRONMENT)
