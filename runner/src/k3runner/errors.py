"""Errors that a user can act on: what was expected, what was found, what to do next."""

from k3bundle.finding import Finding
from k3runner.exit_code import ExitCode

__all__ = [
    "EngineError",
    "MachineError",
    "RefusedError",
    "RegistryError",
    "RunnerError",
    "UsageError",
]


class RunnerError(Exception):
    """Base of all errors whose text is meant for the user; shown as one sentence and a hint."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(f"{problem} {hint}")
        self.problem = problem
        self.hint = hint


class UsageError(RunnerError):
    """A flag or argument is wrong."""

    exit_code = ExitCode.USAGE


class MachineError(RunnerError):
    """The machine lacks something."""

    exit_code = ExitCode.ENVIRONMENT


class EngineError(RunnerError):
    """The engine under test could not be started or died."""

    exit_code = ExitCode.ENGINE


class RegistryError(RunnerError):
    """The registry could not be reached or refused for a reason other than the bundle."""

    exit_code = ExitCode.REGISTRY


class RefusedError(RunnerError):
    """A bundle or submission was refused; the findings say why."""

    exit_code = ExitCode.REFUSED

    def __init__(self, problem: str, hint: str, findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(problem, hint)
        self.findings = findings
