"""`k3-eval reproduce`: run the plan of somebody's submission again."""

import os
from typing import Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "reproduce"]

HELP: Final = f"""Run the plan of a submission again on its commit, and seal a bundle of your own.

The bundle is downloaded and verified, this machine's plan is made, and nothing is started unless
both plans have the same digest. The registry draws another nonce, so the prompts are others. What
is still to do then is to send the bundle; the registry decides whether one reproduces the other.

A subject that does not ship with k3-eval is named by --subject FILE, prompts and traces by the
files that the first run was given.

\b
Example:
  k3-eval reproduce SUBMISSION_ID --registry http://127.0.0.1:8765

{exit_help(*ExitCode)}
"""


def reproduce(
    submission: flags.SubmissionOrBundle,
    *,
    registry: flags.Registry = None,
    subject: flags.Subject = None,
    engine_python: flags.EnginePython = None,
    engine_url: flags.EngineUrl = None,
    model: flags.Model = None,
    runs: flags.Runs = None,
    key: flags.Key = None,
    prompts: flags.Prompts = None,
    trace: flags.Trace = None,
    events: flags.Events = False,
    plain: flags.Plain = False,
) -> None:
    """Run the plan again."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3runner.commands.registry_access import asked, named_registry, say  # noqa: PLC0415
    from k3runner.commands.status import submission_named  # noqa: PLC0415
    from k3runner.commands.watching import watched  # noqa: PLC0415
    from k3runner.reproduction import fetch_original, refuse_other_plan  # noqa: PLC0415
    from k3runner.run import run as run_plan  # noqa: PLC0415
    from k3runner.settings import resolve, resolve_runs  # noqa: PLC0415

    address = named_registry(registry)
    digest = submission_named(submission)
    folder = resolve_runs(runs, os.environ)
    original = asked(address, lambda client: fetch_original(client, digest, folder))
    config = resolve(
        environ=os.environ,
        tier=original.plan.tier,
        subject=subject or original.shipped_subject,
        engine_python=engine_python,
        engine_url=engine_url,
        model=model,
        runs=runs,
        key=key,
        registry=address,
        prompts=prompts,
        trace=trace,
        deployments=original.plan.only_deployments,
    )
    refuse_other_plan(original, config)
    say(f"The plan is that of submission {digest[:16]}; its bundle is in {original.path}.")
    code = watched(lambda emit: run_plan(config, original.change, emit), events=events, plain=plain)
    say(f"Send the new bundle with `k3-eval submit BUNDLE --registry {address}`.")
    raise typer.Exit(code)
