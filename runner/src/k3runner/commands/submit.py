"""`k3-eval submit`: send a bundle to a registry."""

import json
import os
from typing import Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "submit"]

HELP: Final = f"""Send a bundle to a registry, and print the address of its page.

The bundle is verified here first, so a refusal costs no upload. Sending is safe to repeat: the
registry knows a bundle by its digest and keeps one submission. A registry that is down is tried
again for about a minute. The bundle stays where it is, whatever happens.

\b
Example:
  k3-eval submit run.k3b --registry http://127.0.0.1:8765

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.REFUSED, ExitCode.REGISTRY)}
"""


def submit(
    bundle: flags.Bundle, registry: flags.Registry = None, as_json: flags.Json = False
) -> None:
    """Submit the bundle."""
    # Imported when the command runs, so that `--help` answers at once.
    import asyncio  # noqa: PLC0415

    from k3runner.bundle_file import existing_bundle  # noqa: PLC0415
    from k3runner.commands.sound_bundle import sound_manifest  # noqa: PLC0415
    from k3runner.errors import UsageError  # noqa: PLC0415
    from k3runner.settings import resolve_registry  # noqa: PLC0415
    from k3runner.submit import submit_bundle  # noqa: PLC0415

    address = resolve_registry(registry, os.environ)
    if address is None:
        raise UsageError("No registry is named.", "Give --registry URL or set K3EVAL_REGISTRY.")
    change = sound_manifest(existing_bundle(bundle)).change
    receipt = asyncio.run(
        submit_bundle(
            bundle,
            address,
            change,
            say=lambda sentence: typer.echo(f"k3-eval: {sentence}", err=True),
        )
    )
    if as_json:
        typer.echo(json.dumps(receipt.as_json(), ensure_ascii=False))
    else:
        typer.echo(receipt.url)
