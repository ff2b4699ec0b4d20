"""`k3-eval status`: what a registry says about a submission."""

import json
from pathlib import Path
from typing import Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "status", "submission_named"]

HELP: Final = f"""Show what a registry says about a submission: verdict, trust, who, decisions.

A submission is named by its id, the 64 hex digits in the address of its page, or by its bundle's
file, whose digest is the id.

\b
Example:
  k3-eval status run.k3b --registry http://127.0.0.1:8765

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.REFUSED, ExitCode.REGISTRY)}
"""


def status(
    submission: flags.SubmissionOrBundle,
    registry: flags.Registry = None,
    as_json: flags.Json = False,
) -> None:
    """Show the submission."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3runner.commands.registry_access import asked, named_registry  # noqa: PLC0415
    from k3runner.commands.registry_text import submission_lines  # noqa: PLC0415
    from k3runner.registry_lookup import read_submission  # noqa: PLC0415

    address = named_registry(registry)
    digest = submission_named(submission)
    found = asked(address, lambda client: read_submission(client, digest))
    typer.echo(json.dumps(found) if as_json else "\n".join(submission_lines(found)))


def submission_named(text: str) -> str:
    """The id that a person gave, or that of the bundle whose file they named.

    Raises:
        UsageError: It is neither.
        BundleError: The bundle cannot be read.
    """
    from k3bundle.layout import BUNDLE_SUFFIX  # noqa: PLC0415
    from k3bundle.seal import bundle_sha256  # noqa: PLC0415
    from k3runner.bundle_file import read_bundle, refuse_impossible  # noqa: PLC0415
    from k3runner.registry_lookup import full_id  # noqa: PLC0415

    path = Path(text)
    refuse_impossible(path)
    # What looks like a file was meant as one: the sentence is then about the file.
    if path.exists() or path.suffix == BUNDLE_SUFFIX or "/" in text:
        return bundle_sha256(read_bundle(path))
    return full_id(text)
