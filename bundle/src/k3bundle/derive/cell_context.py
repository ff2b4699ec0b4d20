"""What a cell's rule reads, and how it writes its result."""

from dataclasses import dataclass

from k3bundle.derive.path_coverage import CoverageReading, coverage_problem
from k3bundle.derive.plan_shape import NullPair, Pair
from k3bundle.derive.problem import Problem
from k3bundle.derive.requests_check import requests_problem
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import clip, counted, listed, quote
from k3bundle.plan import Plan
from k3bundle.schedule import RunnableCell
from k3bundle.subject import ArmName
from k3bundle.verdict import (
    CellCoverage,
    CellFail,
    CellInconclusive,
    CellInvalid,
    CellPass,
    Evidence,
)

__all__ = ["CellContext"]


@dataclass(frozen=True)
class CellContext:
    """The records that count for one cell."""

    plan: Plan
    cell_id: str
    boots: tuple[CellBoot, ...]
    """Boots that finished the cell, by slot."""
    missing_slots: tuple[int, ...]
    """Slots in which it did not finish."""
    abort_reason: str | None
    """Why it was aborted in the first of those slots, when that was said."""
    pairs: tuple[Pair, ...]
    """Complete pairs of arms of the cell's deployment."""
    null_pairs: tuple[NullPair, ...]
    """Complete A-A pairs of the cell's deployment."""
    null_comparisons: int
    """How many times the run looks at a null pair, over all cells."""
    readings: tuple[CoverageReading, ...]
    """Coverage in each of the boots."""
    synthetic: str | None
    """Where drafts were accepted unchecked; None when nowhere."""

    @property
    def paired(self) -> bool:
        """Whether the plan compares two arms."""
        return self.plan.pairing == "paired"

    def of_arm(self, name: ArmName) -> tuple[CellBoot, ...]:
        """The boots of one arm that are compared with the other's, by slot."""
        return tuple(
            boot for boot in self.boots if boot.slot.arm == name and boot.slot.role == "compare"
        )

    def paired_boots(self) -> tuple[tuple[CellBoot, CellBoot], ...]:
        """(baseline, candidate) of every pair whose boots both finished the cell."""
        by_slot = {boot.slot.slot: boot for boot in self.boots}
        return tuple(
            (by_slot[pair.baseline.slot], by_slot[pair.candidate.slot])
            for pair in self.pairs
            if pair.baseline.slot in by_slot and pair.candidate.slot in by_slot
        )

    def missing_boots(self) -> Problem | None:
        """Say which boots have no result."""
        if not self.boots and not self.missing_slots:
            return Problem("missing_boots", "No boot of the plan runs the cell.")
        if not self.missing_slots:
            return None
        slots = listed([str(slot) for slot in self.missing_slots])
        planned = len(self.boots) + len(self.missing_slots)
        why = "" if self.abort_reason is None else f" {quote(self.abort_reason)}."
        boots = counted(len(self.missing_slots), "boot")
        return Problem(
            "missing_boots",
            f"The cell did not finish in {boots} of {planned} (boot {slots}).{why}",
        )

    def missing(self, cell: RunnableCell) -> Problem | None:
        """Say which boots or requests are not there."""
        return self.missing_boots() or requests_problem(cell, self.boots)

    def coverage(self) -> Problem | None:
        """Say which arm was not served by its expected path."""
        return coverage_problem(self.readings, self.plan)

    def passed(self, reason: str, evidence: Evidence) -> CellPass:
        """Everything held."""
        return CellPass(
            cell_id=self.cell_id, reason=clip(reason), coverage=self._records(), evidence=evidence
        )

    def failed(self, reason: str, evidence: Evidence) -> CellFail:
        """The candidate fell short."""
        return CellFail(
            cell_id=self.cell_id, reason=clip(reason), coverage=self._records(), evidence=evidence
        )

    def inconclusive(self, reason: str, evidence: Evidence) -> CellInconclusive:
        """The interval holds the threshold."""
        return CellInconclusive(
            cell_id=self.cell_id, reason=clip(reason), coverage=self._records(), evidence=evidence
        )

    def invalid(self, problem: Problem, evidence: Evidence | None) -> CellInvalid:
        """The cell cannot be judged."""
        return CellInvalid(
            cell_id=self.cell_id,
            reason=clip(problem.reason),
            cause=problem.cause,
            coverage=self._records(),
            evidence=evidence,
        )

    def _records(self) -> tuple[CellCoverage, ...]:
        return tuple(reading.record for reading in self.readings)
