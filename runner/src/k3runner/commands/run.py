"""`k3-eval run`: the whole evaluation, from plan to sealed bundle."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "RUN_CODES", "run"]

RUN_CODES: Final = tuple(code for code in ExitCode if code is not ExitCode.REFUSED)

HELP: Final = f"""Evaluate a change: plan, paired boots, measurements, verdict, signed bundle.

Both arms of the engine are booted in the order of the plan (A-B-B-A), the same cells run in
every boot, and the verdict is derived from the raw records. Progress goes to stderr; stdout gets
one JSON line with verdict, bundle_path, bundle_sha256 and run_folder.

\b
Example:
  k3-eval run --tier smoke --repository example/engine \\
      --pull-request 7 --commit "$(git rev-parse HEAD)"

With --deployment only that deployment of the subject is booted, and the verdict says that it is
about it alone.

With --isolation the audit of the change goes into the bundle, beside the claim "isolated".

A run that was interrupted is finished with `k3-eval resume RUN_FOLDER`. `run` may be left out:
`k3-eval --tier smoke ...` is the same.

{exit_help(*RUN_CODES)}
"""


def run(
    *,
    repository: flags.Repository,
    pull_request: flags.PullRequest,
    commit: flags.Commit,
    tier: flags.Tier = "smoke",
    subject: flags.Subject = None,
    engine_python: flags.EnginePython = None,
    engine_url: flags.EngineUrl = None,
    model: flags.Model = None,
    runs: flags.Runs = None,
    key: flags.Key = None,
    registry: flags.Registry = None,
    prompts: flags.Prompts = None,
    trace: flags.Trace = None,
    deployment: flags.Deployments = None,
    isolation: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Audit of this commit, from `k3-eval audit isolation --json`."
        ),
    ] = None,
    events: flags.Events = False,
    plain: flags.Plain = False,
) -> None:
    """Run the evaluation."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3runner.commands.change import change_from_flags  # noqa: PLC0415
    from k3runner.commands.isolation_file import read_isolation  # noqa: PLC0415
    from k3runner.settings import resolve  # noqa: PLC0415

    change = change_from_flags(repository, pull_request, commit)
    audit = None if isolation is None else read_isolation(isolation, change)
    config = resolve(
        environ=os.environ,
        tier=tier,
        subject=subject,
        engine_python=engine_python,
        engine_url=engine_url,
        model=model,
        runs=runs,
        key=key,
        registry=registry,
        prompts=prompts,
        trace=trace,
        deployments=deployment or (),
    )
    from k3runner.commands.watching import watched  # noqa: PLC0415
    from k3runner.run import run as run_plan  # noqa: PLC0415

    code = watched(
        lambda emit: run_plan(config, change, emit, isolation=audit), events=events, plain=plain
    )
    raise typer.Exit(code)
