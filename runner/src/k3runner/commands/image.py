"""`k3-eval image`: what is done to evaluate a change in an image that does not hold it."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from k3runner.commands import flags
from k3runner.commands.exit_table import exit_help
from k3runner.exit_code import ExitCode

__all__ = ["HELP", "OVERLAY_HELP", "app", "overlay"]

HELP: Final = """Evaluate a change in an image that does not hold it.

\b
Example:
  k3-eval image overlay --wheel vllm-0.33.1-cp311-abi3.whl --subject k3-tiny --out pr

`k3-eval image overlay --help` teaches it.
"""

OVERLAY_HELP: Final = f"""Lay a candidate's engine beside the installed one, never over it.

Writes a folder with the candidate's code and a subject file that names it. One container then boots
both arms: the baseline as the image has it, the candidate with the folder before it. A wheel is
checked against its own RECORD; of a source only git objects are read, and compiled files are linked
to, so a change of compiled code needs a wheel. The bundle holds the digest of the image's file
tree, the digest of the folder, and the names of the installed files that differ.

\b
Example:
  k3-eval image overlay --wheel my_engine-1.0-py3-none-any.whl --out pr
  k3-eval image overlay --source ~/vllm@8f2c3d1 --subject kimi-k3-upstream --out pr
  docker run --rm -v "$PWD/pr:/overlay:ro" -v "$PWD/results:/results" IMAGE \\
      --tier quick --subject /overlay/subject.toml \\
      --repository OWNER/NAME --pull-request N --commit SHA

{exit_help(ExitCode.PASS, ExitCode.USAGE, ExitCode.ENVIRONMENT)}
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _image() -> None:
    """Hold what is done for images."""


@app.command("overlay", help=OVERLAY_HELP)
def overlay(
    *,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where folder and subject file are written.")
    ],
    wheel: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The candidate as a built wheel.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(metavar="DIR@REV", help="The candidate as a commit of a clone."),
    ] = None,
    package: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help="Package in the commit; default: those at its root or in src."
        ),
    ] = None,
    subject: Annotated[
        str, typer.Option(metavar="NAME", help="Shipped subject whose candidate it becomes.")
    ] = "k3-tiny",
    engine_python: flags.EnginePython = None,
) -> None:
    """Lay a candidate out."""
    # Imported when the command runs, so that `--help` answers at once.
    from k3runner.errors import UsageError  # noqa: PLC0415
    from k3runner.shadowed_files import shadow_remarks  # noqa: PLC0415
    from k3runner.subjects.candidate_overlay import (  # noqa: PLC0415
        overlay_of_commit,
        overlay_of_wheel,
        site_folders,
    )

    named = os.environ.get("K3EVAL_ENGINE_PYTHON")
    python = engine_python or (Path(named) if named else None)
    if (wheel is None) == (source is None):
        raise UsageError("Give a candidate.", "Say --wheel FILE or --source DIR@REV, one of them.")
    if wheel is not None:
        found = overlay_of_wheel(wheel, subject, out)
    else:
        place, _, revision = str(source).rpartition("@")
        if not place:
            raise UsageError(
                f"--source must look like DIR@REV, found `{source}`.", "Name the commit after @."
            )
        found = overlay_of_commit(
            Path(place), revision, subject, out, packages=tuple(package or ()),
            sites=() if python is None else site_folders(python),
        )  # fmt: skip
    compared = () if python is None else shadow_remarks((found.arm,), python)
    for sentence in (*found.remarks, *compared):
        typer.echo(sentence, err=True)
    typer.echo(f"{found.subject} {found.arm.spec.overlay_sha256}")
