"""`k3-eval keygen`: make the SSH key that signs bundles."""

import os
from typing import Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "keygen"]

HELP: Final = f"""Make an ed25519 SSH key that signs bundles, and print its public line.

An existing file is never overwritten. Any ed25519 key in OpenSSH format works in its place; give
it with --key or K3EVAL_KEY.

\b
Example:
  k3-eval keygen --key ~/.ssh/k3-eval

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.ENVIRONMENT)}
"""


def keygen(key: flags.Key = None) -> None:
    """Make the key."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3bundle.sign import generate_key, load_signer  # noqa: PLC0415
    from k3runner.errors import MachineError, UsageError  # noqa: PLC0415
    from k3runner.settings import resolve_key  # noqa: PLC0415

    path = resolve_key(key, os.environ)
    if path.exists():
        raise UsageError(
            f"{path} exists and is never overwritten.",
            "Use it as it is, or give another path with --key.",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        generate_key(path)
    except OSError as error:
        raise MachineError(
            f"Could not write a key to {path}: {error.strerror}.",
            "Give a path that you may write to with --key.",
        ) from error
    typer.echo(f"k3-eval: Wrote {path} (keep it) with mode 0600.", err=True)
    typer.echo(load_signer(path).public_key)
