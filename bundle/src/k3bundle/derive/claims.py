"""The four claims of an evaluation, and what each stands on.

- isolated: the arms differ only in what the plan declares.
- bounded: every cell was served by the path it names, and every feature still works.
- correct: every greedy cell passes.
- faster: every superiority cell passes (an intersection-union test, each cell at the full level),
  every non-inferiority cell too, and only when the answers of the same digest are correct in every
  deployment. A tier that does not claim speed never makes this claim, nor does a plan that excuses
  a supported cell or skips one for the sake of the machine.
"""

from collections.abc import Sequence
from typing import Final

from k3bundle.bundle import RunRecords
from k3bundle.derive.claim_parts import (
    about,
    claim_status,
    make_claim,
    uncompared,
    worst_of,
)
from k3bundle.derive.faster_claim import judge_faster
from k3bundle.derive.isolation import Isolation
from k3bundle.derive.kernel_claims import package_claims
from k3bundle.derive.plan_shape import slots_of
from k3bundle.derive.sentences import counted, listed
from k3bundle.plan import Plan, SkippedCell
from k3bundle.verdict import (
    CellFail,
    CellInconclusive,
    CellInvalid,
    CellPass,
    CellResult,
    CellSkipped,
    Claim,
)

__all__ = ["judge_claims"]

_COVERAGE_CAUSES: Final = frozenset(
    {"measures_stock", "no_coverage", "unexpected_path", "missing_boots"}
)


def judge_claims(
    records: RunRecords, isolation: Isolation, cells: Sequence[CellResult]
) -> tuple[Claim, Claim, Claim, Claim]:
    """The claims in the order isolated, bounded, correct, faster.

    Args:
        records: What was run.
        isolation: The finding on isolation.
        cells: The result of every planned cell, in plan order.
    """
    plan = records.plan
    if plan.pairing == "package":
        return package_claims(plan, isolation, cells)

    def of_kind(kind: str) -> list[CellResult]:
        pairs = zip(plan.cells, cells, strict=True)
        return [result for planned, result in pairs if planned.kind == kind]

    correct = _correct(plan, of_kind("greedy"))
    return (
        make_claim("isolated", isolation.status, isolation.sentence, ()),
        _bounded(plan, cells, of_kind("feature")),
        correct,
        judge_faster(records, cells, correct),
    )


def _bounded(plan: Plan, cells: Sequence[CellResult], features: Sequence[CellResult]) -> Claim:
    alone = uncompared(plan)
    if alone is not None:
        return make_claim("bounded", "NOT_CLAIMED", alone, features)
    judged = [cell for cell in cells if not isinstance(cell, CellSkipped)]
    by_cause = [c for c in judged if isinstance(c, CellInvalid) and c.cause in _COVERAGE_CAUSES]
    worst = worst_of([*features, *by_cause])
    if worst is not None:
        return make_claim("bounded", claim_status(worst), about(worst), judged)
    due = {
        cell.cell_id: len(slots_of(plan, cell))
        for cell in plan.cells
        if not isinstance(cell, SkippedCell)
    }
    uncovered = [c.cell_id for c in judged if not _is_covered(c, plan, due.get(c.cell_id, 0))]
    if uncovered:
        sentence = f"Path coverage is not proven in {listed(uncovered)}."
        return make_claim("bounded", "INVALID", sentence, judged)
    if not features:
        sentence = "The plan has no feature cell, so kept features are not claimed."
        return make_claim("bounded", "NOT_CLAIMED", sentence, judged)
    return make_claim(
        "bounded",
        "PASS",
        f"The expected path served every arm in all {counted(len(judged), 'cell')}, and every "
        f"check of {counted(len(features), 'feature cell')} passes in both arms.",
        judged,
    )


def _is_covered(
    cell: CellPass | CellFail | CellInconclusive | CellInvalid, plan: Plan, due: int
) -> bool:
    """Whether every boot has a sufficient share, whatever else the cell's result says."""
    minimum = plan.gates.minimum_decode_coverage
    shares = [record.share for record in cell.coverage if record.share is not None]
    return len(shares) == due and all(share >= minimum for share in shares)


def _correct(plan: Plan, greedy: Sequence[CellResult]) -> Claim:
    alone = uncompared(plan)
    if alone is not None:
        return make_claim("correct", "NOT_CLAIMED", alone, greedy)
    if not greedy:
        sentence = "The plan has no greedy cell, so nothing shows that the answers are right."
        return make_claim("correct", "NOT_CLAIMED", sentence, ())
    worst = worst_of(greedy)
    if worst is not None:
        return make_claim("correct", claim_status(worst), about(worst), greedy)
    return make_claim(
        "correct", "PASS", f"{len(greedy)} of {len(greedy)} greedy cells pass.", greedy
    )
