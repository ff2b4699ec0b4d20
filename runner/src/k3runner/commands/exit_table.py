"""The exit codes in words: for `--help`, for the README's table, and for nothing else."""

from collections.abc import Mapping
from typing import Final

from k3runner.exit_code import ExitCode

__all__ = ["MEANING", "exit_help"]

MEANING: Final[Mapping[ExitCode, str]] = {
    ExitCode.PASS: "it did its job; for run and resume: the verdict is PASS",
    ExitCode.FAIL: "the verdict is FAIL",
    ExitCode.USAGE: "a flag or argument is wrong; nothing was started",
    ExitCode.NOT_CONCLUSIVE: "the verdict is INCONCLUSIVE, INVALID or INCOMPLETE",
    ExitCode.REFUSED: "a bundle or submission was refused; the findings say why",
    ExitCode.ENVIRONMENT: "the machine lacks something",
    ExitCode.ENGINE: "the engine under test could not be started or died",
    ExitCode.REGISTRY: "the registry could not be reached or answered with an error",
    ExitCode.INTERNAL: "a defect of k3-eval itself; a trace was written",
    ExitCode.INTERRUPTED: "stopped by Ctrl-C; what was finished is kept",
}
"""Every exit code, in one phrase."""


def exit_help(*codes: ExitCode) -> str:
    """Return the exit code section of a command's `--help`, marked so that it is not wrapped."""
    lines = [f"  {code.value:>3}  {MEANING[code]}" for code in codes]
    return "\n".join(["\b", "Exit codes:", *lines])
