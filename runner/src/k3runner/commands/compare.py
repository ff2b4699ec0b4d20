"""`k3-eval compare`: two submissions side by side, or why that would say nothing."""

import json
from typing import Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "compare"]

HELP: Final = f"""Compare two submissions of a registry, each named by its id or its bundle's file.

Submissions of different plans, models, engines or kinds of machine are not compared, and the
reasons are given. Whether one reproduces the other is an equivalence test: agreement is shown, not
assumed.

\b
Example:
  k3-eval compare run.k3b THEIR_ID --registry http://127.0.0.1:8765

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.REFUSED, ExitCode.REGISTRY)}
"""


def compare(
    submission: flags.SubmissionOrBundle,
    other: flags.SubmissionOrBundle,
    registry: flags.Registry = None,
    as_json: flags.Json = False,
) -> None:
    """Show the comparison."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3runner.commands.registry_access import asked, named_registry  # noqa: PLC0415
    from k3runner.commands.registry_text import comparison_lines  # noqa: PLC0415
    from k3runner.commands.status import submission_named  # noqa: PLC0415
    from k3runner.errors import UsageError  # noqa: PLC0415
    from k3runner.registry_lookup import read_comparison  # noqa: PLC0415

    address = named_registry(registry)
    pair = submission_named(submission), submission_named(other)
    if pair[0] == pair[1]:
        raise UsageError(
            "Both are the same submission, and it says nothing about itself.",
            "Name another one beside it.",
        )
    found = asked(address, lambda client: read_comparison(client, *pair))
    typer.echo(json.dumps(found) if as_json else "\n".join(comparison_lines(found)))
