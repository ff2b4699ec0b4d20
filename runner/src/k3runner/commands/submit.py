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
again for about a minute. The bundle stays where it is, whatever happens. One above 16 MiB goes in
parts; given again, the command sends only those that are missing.

Without --token-file, --github-account or --github-actions nobody stands behind the submission: it
lands in the registry's playground until it is sent again with one of them.

\b
Example:
  k3-eval submit run.k3b --registry http://127.0.0.1:8765
  k3-eval submit run.k3b --registry https://registry.example --github-account octocat

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.REFUSED, ExitCode.REGISTRY)}
"""


def submit(
    bundle: flags.Bundle,
    *,
    registry: flags.Registry = None,
    token_file: flags.TokenFile = None,
    github_account: flags.GithubAccount = None,
    github_actions: flags.GithubActions = False,
    as_json: flags.Json = False,
) -> None:
    """Submit the bundle."""
    # Imported when the command runs, so that `--help` answers at once.
    import asyncio  # noqa: PLC0415

    from k3runner.bundle_file import existing_bundle  # noqa: PLC0415
    from k3runner.commands.registry_access import named_registry, say  # noqa: PLC0415
    from k3runner.commands.sound_bundle import sound_manifest  # noqa: PLC0415
    from k3runner.github_identity import checked_account, identity_token  # noqa: PLC0415
    from k3runner.settings import resolve_token  # noqa: PLC0415
    from k3runner.submit import Sender, file_sha256, submit_bundle  # noqa: PLC0415

    address = named_registry(registry)
    account = checked_account(github_account)
    change = sound_manifest(existing_bundle(bundle)).change
    if github_actions:
        token: str | None = identity_token(address, file_sha256(bundle), os.environ)
    else:
        token = resolve_token(token_file, os.environ, address)
    sender = Sender(token=token, github_account=account)
    receipt = asyncio.run(submit_bundle(bundle, address, change, say=say, sender=sender))
    if as_json:
        typer.echo(json.dumps(receipt.as_json(), ensure_ascii=False))
    else:
        typer.echo(receipt.url)
