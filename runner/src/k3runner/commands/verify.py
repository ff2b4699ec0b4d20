"""`k3-eval verify`: is this bundle sound, and is it evidence for this change."""

import json
from typing import Annotated, Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "verify"]

HELP: Final = f"""Check a bundle: framing, digests, signature, and every number again from raw data.

Exit code 0 says that the bundle is sound, whatever its verdict is; the verdict is printed. With
--repository, --pull-request and --commit the bundle must be evidence for exactly that change;
with --signer it must be signed by that key. Whether the plan asks for all that its tier does is
always said; with --standard a plan that asks for less is refused, with --tier a cheaper tier too.

\b
Example:
  k3-eval verify run.k3b
  k3-eval verify run.k3b --repository example/engine --pull-request 7 \\
      --commit "$(git rev-parse HEAD)" --signer SHA256:Nh0Me49Zh9fDw...

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.REFUSED)}
"""


def verify(
    bundle: flags.Bundle,
    *,
    repository: Annotated[
        str | None, typer.Option(metavar="OWNER/NAME", help="The repository it must be about.")
    ] = None,
    pull_request: Annotated[
        str | None, typer.Option(metavar="N", help="The pull request it must be about.")
    ] = None,
    commit: Annotated[
        str | None, typer.Option(metavar="SHA", help="The full commit SHA it must be about.")
    ] = None,
    signer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FINGERPRINT", help="Allowed signer, SHA256:...; may be given several times."
        ),
    ] = None,
    standard: Annotated[
        bool,
        typer.Option("--standard", help="Refuse a plan that asks for less than its tier does."),
    ] = False,
    minimum_tier: Annotated[
        str | None, typer.Option("--tier", metavar="NAME", help="The cheapest tier that is enough.")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Verify the bundle."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3bundle.policy import Policy  # noqa: PLC0415
    from k3runner.commands.change import optional_change  # noqa: PLC0415
    from k3runner.commands.verify_text import (  # noqa: PLC0415
        report_lines,
        report_object,
        tier_named,
        verified,
    )

    policy = Policy(
        change=optional_change(repository, pull_request, commit),
        allowed_signers=frozenset(signer) if signer else None,
        require_standard=standard,
        minimum_tier=tier_named(minimum_tier),
    )
    report = verified(bundle, policy)
    if as_json:
        typer.echo(json.dumps(report_object(report), ensure_ascii=False))
    else:
        for line in report_lines(report):
            typer.echo(line)
    if report.findings:
        raise typer.Exit(ExitCode.REFUSED)
