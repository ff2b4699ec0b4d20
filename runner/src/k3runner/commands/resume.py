"""`k3-eval resume`: finish a run that was interrupted."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.commands.run import RUN_CODES

__all__ = ["HELP", "resume"]

HELP: Final = f"""Finish a run that was interrupted, and seal its bundle.

Cells that were finished are kept; only what is missing is booted and measured again. Plan, model,
image and engine must be what they were, and the folder must be yours. The bundle says that it was
resumed.

\b
Example:
  k3-eval resume .k3eval/runs/20260131T101500Z-smoke-1f2e3d4c

{exit_help(*RUN_CODES)}
"""


def resume(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN_FOLDER", help="Folder of the interrupted run.")
    ],
    *,
    engine_python: flags.EnginePython = None,
    engine_url: flags.EngineUrl = None,
    model: flags.Model = None,
    key: flags.Key = None,
    events: flags.Events = False,
    plain: flags.Plain = False,
) -> None:
    """Resume the run."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3runner.commands.watching import watched  # noqa: PLC0415
    from k3runner.image import resolve_image  # noqa: PLC0415
    from k3runner.run import ConfigOverrides  # noqa: PLC0415
    from k3runner.run import resume as resume_run  # noqa: PLC0415
    from k3runner.settings import resolve_agent  # noqa: PLC0415

    overrides = ConfigOverrides(
        engine_python=engine_python,
        model_folder=model,
        key_path=None if key is None else key.absolute(),
        engine_url=engine_url,
        agent_socket=resolve_agent(os.environ),
        image=resolve_image(os.environ),
    )
    code = watched(lambda emit: resume_run(run_folder, overrides, emit), events=events, plain=plain)
    raise typer.Exit(code)
