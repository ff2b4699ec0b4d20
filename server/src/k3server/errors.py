"""Errors of the registry. The text of a `PublicError` is promised to be safe to show."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["MachineError", "Problem", "ProblemFinding", "PublicError"]


@dataclass(frozen=True)
class ProblemFinding:
    """One reason for a refusal."""

    code: str
    """Stable name: a finding code of the verifier, or one of the registry's own."""
    where: str
    """File, record or request field."""
    why: str
    """What was expected and what was found, in a sentence."""
    hint: str
    """The next step, in a sentence."""


@dataclass(frozen=True)
class Problem:
    """Everything an error answer says, for a program (problem+json) or a person (a page)."""

    status: int
    """HTTP status."""
    title: str
    """The kind of problem, the same each time."""
    detail: str
    """This problem, in a sentence, with the next step."""
    findings: tuple[ProblemFinding, ...] = ()
    """Every reason, where there are several."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers that the answer must carry, for example `Retry-After`."""


class PublicError(Exception):
    """A request cannot be answered as asked; its problem is safe to show to anyone."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}")
        self.problem = problem


class MachineError(Exception):
    """The machine does not let the registry start; shown as one sentence and a hint."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(f"{problem} {hint}")
        self.problem = problem
        self.hint = hint
