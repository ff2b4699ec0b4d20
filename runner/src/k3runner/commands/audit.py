"""`k3-eval audit`: what can be said of a change before anything of it runs."""

from pathlib import Path
from typing import Annotated, Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "ISOLATION_HELP", "app", "isolation"]

HELP: Final = """Audit a change from its source, without running any of it.

\b
Example:
  k3-eval audit isolation --base origin/main --head my-branch --repo ~/vllm

`k3-eval audit isolation --help` teaches it.
"""

ISOLATION_HELP: Final = f"""Say which code a change shares with other models, and where it acts.

Reads commits from git objects: no checkout is made and nothing of the repository runs, so a bare
clone of an unknown fork is fine. The change is what --head adds since it left --base. Each touched
file is model-only, shared (sampling, scheduler, KV cache, input preparation, ...), tests or
documentation, by a policy; a file that no rule names counts as shared. In added Python it lists
where a path is selected (configuration keys, environment variables, imports), what state is written
(patches of imported code, globals, attributes of others), and how a step returns to the standard
path, with the ways that tell nobody first.

It reads names and shapes of code. It proves nothing about what code does: that is for the run.

--json prints the record `isolation.json`; `k3-eval run --isolation FILE` puts it into the bundle,
where it is evidence for the claim "isolated".

\b
Example:
  k3-eval audit isolation --base origin/main --head my-branch --repo ~/vllm
  k3-eval audit isolation --base v1.0 --head 8f2c3d1 --repo vllm.git --json > isolation.json
  k3-eval audit isolation --base main --head HEAD --repo . --policy my-engine.toml

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.ENVIRONMENT)}
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _audit() -> None:
    """Hold the audits."""


@app.command("isolation", help=ISOLATION_HELP)
def isolation(
    *,
    base: Annotated[str, typer.Option(metavar="REV", help="Commit that the change starts from.")],
    head: Annotated[str, typer.Option(metavar="REV", help="Commit with the change.")],
    repo: Annotated[
        Path, typer.Option(metavar="PATH", help="A clone, with or without a work tree.")
    ],
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Whose paths are whose, as TOML; default: vLLM's."),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Audit the isolation of a change."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3bundle.canonical import canonical_json  # noqa: PLC0415
    from k3runner.audit.isolation import audit_isolation  # noqa: PLC0415
    from k3runner.audit.isolation_text import audit_lines  # noqa: PLC0415
    from k3runner.audit.policy import load_policy  # noqa: PLC0415

    audit = audit_isolation(repo, base, head, load_policy(policy))
    if as_json:
        typer.echo(canonical_json(audit).decode())
        return
    for line in audit_lines(audit):
        typer.echo(line)
