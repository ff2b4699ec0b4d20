"""The command line `k3-eval`. Registration only: each command lives in `commands/`."""

import sys
from importlib import metadata
from typing import Annotated, Final, NoReturn

import typer

from k3runner.commands import (
    audit,
    claim,
    compare,
    doctor,
    image,
    keygen,
    plan,
    report,
    reproduce,
    resume,
    run,
    status,
    submit,
    verify,
)
from k3runner.commands.failure import failure_code

__all__ = ["app", "main", "run_command_line"]

HELP: Final = """The referee of k3-eval: evaluate a decode path, and seal what was measured.

\b
A first evaluation:
  k3-eval doctor                          is this machine ready
  k3-eval plan --tier smoke               what a run would do
  k3-eval run --tier smoke --repository OWNER/NAME --pull-request N --commit SHA
  k3-eval verify BUNDLE                   is a bundle sound
  k3-eval submit BUNDLE --registry URL    send it
  k3-eval report BUNDLE --html FILE       look at it
  k3-eval reproduce ID --registry URL     run the plan of a submission again
  k3-eval audit isolation --base REV --head REV --repo PATH   what a change touches
  k3-eval image overlay --wheel FILE --out DIR   a change beside the engine of an image

`k3-eval COMMAND --help` teaches one command. Data goes to stdout, words go to stderr.
"""

app = typer.Typer(help=HELP, add_completion=False, rich_markup_mode=None)

_OWN_FLAGS: Final = ("--help", "--version")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"k3-eval {metadata.version('k3-runner')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Hold the flags that belong to no command."""


app.command("doctor", help=doctor.HELP)(doctor.doctor)
app.command("plan", help=plan.HELP)(plan.plan)
app.command("run", help=run.HELP)(run.run)
app.command("resume", help=resume.HELP)(resume.resume)
app.command("verify", help=verify.HELP)(verify.verify)
app.command("submit", help=submit.HELP)(submit.submit)
app.command("status", help=status.HELP)(status.status)
app.command("compare", help=compare.HELP)(compare.compare)
app.command("reproduce", help=reproduce.HELP)(reproduce.reproduce)
app.command("claim", help=claim.CLAIM_HELP)(claim.claim)
app.command("release", help=claim.RELEASE_HELP)(claim.release)
app.command("report", help=report.HELP)(report.report)
app.add_typer(audit.app, name="audit", help=audit.HELP)
app.add_typer(image.app, name="image", help=image.HELP)
app.command("keygen", help=keygen.HELP)(keygen.keygen)


def run_command_line(arguments: list[str]) -> int:
    """Run one command line and return its exit code; errors become words on stderr."""
    try:
        code = app(_with_command(arguments), prog_name="k3-eval", standalone_mode=False)
    except Exception as error:
        code = failure_code(error)
    return int(code or 0)


def _with_command(arguments: list[str]) -> list[str]:
    """A first argument that is a flag means `run`, unless the flag is k3-eval's own.

    Without arguments a person wants to know what there is.
    """
    if not arguments:
        return ["--help"]
    first = arguments[0]
    if first.startswith("--") and first.split("=")[0] not in _OWN_FLAGS:
        return ["run", *arguments]
    return arguments


def main() -> NoReturn:
    """Run the command line of this process."""
    sys.exit(run_command_line(sys.argv[1:]))
