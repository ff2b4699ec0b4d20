"""The claim `faster`: what it takes, and in how many cells it holds."""

from collections.abc import Sequence
from dataclasses import dataclass

from k3bundle.bundle import RunRecords
from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.derive.claim_parts import about, claim_status, make_claim, uncompared, worst_of
from k3bundle.derive.sentences import clip, counted, listed
from k3bundle.plan import CellPlan, GreedyCell, Plan, ServingCell, SkippedCell
from k3bundle.verdict import CellResult, Claim

__all__ = ["SpeedCells", "judge_faster", "speed_cells"]


@dataclass(frozen=True)
class SpeedCells:
    """Serving cells by what they have to show about speed."""

    superiority: tuple[CellResult, ...]
    """Supported cells that must be faster."""
    non_inferiority: tuple[CellResult, ...]
    """Cells that must not be slower."""
    excused: tuple[CellResult, ...]
    """Supported cells that the subject excuses."""
    absent: tuple[CellResult, ...]
    """Supported cells that this machine cannot run."""
    unsupported: tuple[CellResult, ...]
    """Cells that the subject does not claim to serve."""
    only: tuple[str, ...]
    """Deployments that the plan was restricted to by request."""

    @property
    def supported(self) -> int:
        """Cells in which users may expect a gain."""
        return len(self.superiority) + len(self.excused) + len(self.absent)

    @property
    def faster(self) -> int:
        """Superiority cells that pass."""
        return sum(cell.status == "PASS" for cell in self.superiority)

    @property
    def judged(self) -> tuple[CellResult, ...]:
        """Cells whose speed is judged."""
        return (*self.superiority, *self.non_inferiority)

    def count(self) -> str:
        """In how many cells the candidate is faster: `41 of 43 supported cells, 2 excused`."""
        words = f"{self.faster} of {self.supported} supported cells"
        if self.excused:
            words += f", {len(self.excused)} excused"
        if self.absent:
            words += f", {len(self.absent)} not run"
        return f"{words}, for {listed(self.only)} only" if self.only else words


def speed_cells(plan: Plan, cells: Sequence[CellResult]) -> SpeedCells:
    """Sort the serving cells of a plan by what they have to show."""
    found: dict[str, list[CellResult]] = {
        "superiority": [],
        "non_inferiority": [],
        "excused": [],
        "absent": [],
        "unsupported": [],
    }
    for planned, result in zip(plan.cells, cells, strict=True):
        role = _role(planned)
        if role is not None:
            found[role].append(result)
    return SpeedCells(
        **{name: tuple(results) for name, results in found.items()}, only=plan.only_deployments
    )


def _role(cell: CellPlan) -> str | None:
    if isinstance(cell, ServingCell):
        return cell.speed.kind
    if isinstance(cell, SkippedCell) and cell.of_kind == "serving":
        return "absent" if cell.cause == "machine" else "unsupported"
    return None


def judge_faster(records: RunRecords, cells: Sequence[CellResult], correct: Claim) -> Claim:
    """Judge the claim `faster`.

    Args:
        records: What was run.
        cells: The result of every planned cell, in plan order.
        correct: The claim that the answers are right.
    """
    plan = records.plan
    found = speed_cells(plan, cells)
    serving = (*found.superiority, *found.non_inferiority, *found.excused)
    unclaimed = _no_claim(plan, found)
    if unclaimed is not None:
        return make_claim("faster", "NOT_CLAIMED", unclaimed, serving)
    worst = worst_of(found.judged)
    if worst is not None and worst.status == "FAIL":
        sentence = f"Faster in {found.count()}. {about(worst)}"
        return make_claim("faster", "FAIL", sentence, serving)
    unproven = _answers_unproven(records, correct)
    if unproven is not None:
        return make_claim("faster", "INVALID", unproven, serving)
    if worst is not None:
        sentence = f"Faster in {found.count()}. {about(worst)}"
        return make_claim("faster", claim_status(worst), sentence, serving)
    if found.excused or found.absent:
        return make_claim("faster", "NOT_CLAIMED", _excuses(plan, found), serving)
    sentence = f"The candidate is faster in {found.count()}{_others(found)}."
    return make_claim("faster", "PASS", sentence, serving)


def _no_claim(plan: Plan, found: SpeedCells) -> str | None:
    if not plan.gates.claims_speed:
        return f"The {plan.tier} tier never claims speed."
    alone = uncompared(plan)
    if alone is not None:
        return alone
    return None if found.superiority else "The plan has no cell that must be faster."


def _answers_unproven(records: RunRecords, correct: Claim) -> str | None:
    """Why speed counts for nothing: the answers of this very digest are not shown to be right."""
    if correct.status != "PASS":
        return f"Speed counts only for correct answers, and that claim is {correct.status}."
    plan = records.plan
    answered = {cell.deployment for cell in plan.cells if isinstance(cell, GreedyCell)}
    silent = sorted(
        {c.deployment for c in plan.cells if isinstance(c, ServingCell)}.difference(answered)
    )
    if silent:
        return f"Speed counts only for correct answers, and no greedy cell ran in {listed(silent)}."
    digest = sha256_hex(canonical_json(records.subject))
    for attempt in records.attempts[1:]:
        if attempt.subject_sha256 != digest:
            return (
                "Speed and answers count only for one digest, and attempt "
                f"{attempt.attempt} does not say that it resumed on the same subject."
            )
    return None


def _excuses(plan: Plan, found: SpeedCells) -> str:
    reasons = {
        cell.cell_id: cell.speed.reason
        for cell in plan.cells
        if isinstance(cell, ServingCell) and cell.speed.kind == "excused"
    }
    why: dict[str, list[str]] = {}
    for cell in found.excused:
        why.setdefault(reasons[cell.cell_id].rstrip("."), []).append(cell.cell_id)
    for cell in found.absent:
        why.setdefault(cell.reason.rstrip("."), []).append(cell.cell_id)
    named = [f"{_cells(ids)} ({reason})" for reason, ids in why.items()]
    return clip(f"Faster in {found.count()}: {listed(named)}. So it is not claimed for all.")


def _cells(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {counted(len(ids) - 1, 'more cell')}"


def _others(found: SpeedCells) -> str:
    words = ""
    if found.non_inferiority:
        words = f" and not slower in {counted(len(found.non_inferiority), 'other cell')}"
    if found.unsupported:
        words += f"; the subject does not claim {counted(len(found.unsupported), 'more cell')}"
    return words
