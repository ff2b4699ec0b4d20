"""`k3-eval claim` and `k3-eval release`: wanted evidence on a registry's board."""

import json
from typing import Final, Literal

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["CLAIM_HELP", "RELEASE_HELP", "claim", "release"]

_CODES: Final = exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.REGISTRY)

CLAIM_HELP: Final = f"""Say that you bring something that is wanted, so that nobody does it twice.

A claim ends on its own after a week; claim again to keep it longer. It needs an API token with the
scope `claim`.

\b
Example:
  k3-eval claim 0123456789abcdef --registry http://127.0.0.1:8765 --token-file token.txt

{_CODES}
"""

RELEASE_HELP: Final = f"""Give a claim back, so that somebody else can bring it.

\b
Example:
  k3-eval release 0123456789abcdef --registry http://127.0.0.1:8765 --token-file token.txt

{_CODES}
"""


def claim(
    wanted: flags.Wanted,
    registry: flags.Registry = None,
    token_file: flags.TokenFile = None,
    as_json: flags.Json = False,
) -> None:
    """Claim it."""
    _change("claim", wanted, registry, token_file, as_json=as_json)


def release(
    wanted: flags.Wanted,
    registry: flags.Registry = None,
    token_file: flags.TokenFile = None,
    as_json: flags.Json = False,
) -> None:
    """Release it."""
    _change("release", wanted, registry, token_file, as_json=as_json)


def _change(
    act: Literal["claim", "release"],
    wanted: str,
    registry: str | None,
    token_file: flags.TokenFile,
    *,
    as_json: bool,
) -> None:
    # Imported when the command runs, so that `--help` answers at once.
    from k3runner.commands.registry_access import (  # noqa: PLC0415
        asked,
        named_registry,
        needed_token,
    )
    from k3runner.commands.registry_text import wanted_lines  # noqa: PLC0415
    from k3runner.registry_lookup import change_claim, wanted_id  # noqa: PLC0415

    address = named_registry(registry)
    token = needed_token(address, token_file)
    digits = wanted_id(wanted)
    found = asked(address, lambda client: change_claim(client, digits, act), token=token)
    typer.echo(json.dumps(found) if as_json else "\n".join(wanted_lines(found)))
