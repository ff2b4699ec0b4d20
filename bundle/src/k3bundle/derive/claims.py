"""The four claims of an evaluation, and what each stands on.

- isolated: the arms differ only in what the plan declares.
- bounded: every cell was served by the path it names, and every feature still works.
- correct: every greedy cell passes.
- faster: every serving cell passes (an intersection-union test, each cell at the full level), and
  only when the answers are correct. A tier that does not claim speed never makes this claim.
"""

from collections.abc import Sequence
from typing import Final, Literal

from k3bundle.derive.isolation import Isolation
from k3bundle.derive.plan_shape import slots
from k3bundle.derive.sentences import clip, counted, listed
from k3bundle.plan import Plan
from k3bundle.verdict import (
    CellFail,
    CellInconclusive,
    CellInvalid,
    CellPass,
    CellResult,
    CellSkipped,
    Claim,
    ClaimName,
)

__all__ = ["judge_claims"]

_Status = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "NOT_CLAIMED"]

_ONE_SERVER: Final = "One server was measured; there is no arm to compare with."
_COVERAGE_CAUSES: Final = frozenset({"measures_stock", "no_coverage", "missing_boots"})


def judge_claims(
    plan: Plan, isolation: Isolation, cells: Sequence[CellResult]
) -> tuple[Claim, Claim, Claim, Claim]:
    """The claims in the order isolated, bounded, correct, faster.

    Args:
        plan: The plan that was run.
        isolation: The finding on isolation.
        cells: The result of every planned cell, in plan order.
    """

    def of_kind(kind: str) -> list[CellResult]:
        pairs = zip(plan.cells, cells, strict=True)
        return [result for planned, result in pairs if planned.kind == kind]

    correct = _correct(plan, of_kind("greedy"))
    return (
        _claim("isolated", isolation.status, isolation.sentence, ()),
        _bounded(plan, cells, of_kind("feature")),
        correct,
        _faster(plan, of_kind("serving"), correct),
    )


def _bounded(plan: Plan, cells: Sequence[CellResult], features: Sequence[CellResult]) -> Claim:
    if plan.pairing == "single":
        return _claim("bounded", "NOT_CLAIMED", _ONE_SERVER, features)
    judged = [cell for cell in cells if not isinstance(cell, CellSkipped)]
    by_cause = [c for c in judged if isinstance(c, CellInvalid) and c.cause in _COVERAGE_CAUSES]
    worst = _worst([*features, *by_cause])
    if worst is not None:
        return _claim("bounded", _status(worst), _about(worst), judged)
    uncovered = [cell.cell_id for cell in judged if not _is_covered(cell, plan)]
    if uncovered:
        sentence = f"Path coverage is not proven in {listed(uncovered)}."
        return _claim("bounded", "INVALID", sentence, judged)
    if not features:
        sentence = "The plan has no feature cell, so kept features are not claimed."
        return _claim("bounded", "NOT_CLAIMED", sentence, judged)
    return _claim(
        "bounded",
        "PASS",
        f"The expected path served every arm in all {counted(len(judged), 'cell')}, and every "
        f"check of {counted(len(features), 'feature cell')} passes in both arms.",
        judged,
    )


def _is_covered(cell: CellPass | CellFail | CellInconclusive | CellInvalid, plan: Plan) -> bool:
    """Whether every boot has a sufficient share, whatever else the cell's result says."""
    minimum = plan.gates.minimum_decode_coverage
    shares = [record.share for record in cell.coverage if record.share is not None]
    return len(shares) == len(slots(plan)) and all(share >= minimum for share in shares)


def _correct(plan: Plan, greedy: Sequence[CellResult]) -> Claim:
    if plan.pairing == "single":
        return _claim("correct", "NOT_CLAIMED", _ONE_SERVER, greedy)
    if not greedy:
        sentence = "The plan has no greedy cell, so nothing shows that the answers are right."
        return _claim("correct", "NOT_CLAIMED", sentence, ())
    worst = _worst(greedy)
    if worst is not None:
        return _claim("correct", _status(worst), _about(worst), greedy)
    return _claim("correct", "PASS", f"{len(greedy)} of {len(greedy)} greedy cells pass.", greedy)


def _faster(plan: Plan, serving: Sequence[CellResult], correct: Claim) -> Claim:
    unclaimed = _no_speed_claim(plan, serving)
    if unclaimed is not None:
        return _claim("faster", "NOT_CLAIMED", unclaimed, serving)
    worst = _worst(serving)
    if worst is not None and worst.status == "FAIL":
        return _claim("faster", "FAIL", _about(worst), serving)
    if correct.status != "PASS":
        sentence = f"Speed counts only for correct answers, and that claim is {correct.status}."
        return _claim("faster", "INVALID", sentence, serving)
    if worst is not None:
        return _claim("faster", _status(worst), _about(worst), serving)
    sentence = f"The candidate is faster in {len(serving)} of {len(serving)} serving cells."
    return _claim("faster", "PASS", sentence, serving)


def _no_speed_claim(plan: Plan, serving: Sequence[CellResult]) -> str | None:
    if not plan.gates.claims_speed:
        return f"The {plan.tier} tier never claims speed."
    if plan.pairing == "single":
        return _ONE_SERVER
    return None if serving else "The plan has no serving cell."


_ORDER: Final = ("FAIL", "INVALID", "INCONCLUSIVE")


def _worst(cells: Sequence[CellResult]) -> CellResult | None:
    """The first cell of the worst status; None when all pass or are skipped."""
    for status in _ORDER:
        for cell in cells:
            if cell.status == status:
                return cell
    return None


def _status(cell: CellResult) -> _Status:
    return "INVALID" if cell.status == "SKIPPED" else cell.status


def _about(cell: CellResult) -> str:
    return f"Cell {cell.cell_id}: {cell.reason}"


def _claim(name: ClaimName, status: _Status, sentence: str, cells: Sequence[CellResult]) -> Claim:
    return Claim(
        name=name,
        status=status,
        sentence=clip(sentence),
        cells=tuple(cell.cell_id for cell in cells),
    )
