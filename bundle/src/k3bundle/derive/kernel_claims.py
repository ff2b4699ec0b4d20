"""The four claims of a run of the kernels tier: of them it makes only `correct`."""

from collections.abc import Sequence
from typing import Final

from k3bundle.derive.claim_parts import about, claim_status, make_claim, worst_of
from k3bundle.derive.isolation import Isolation
from k3bundle.derive.sentences import counted
from k3bundle.plan import KernelCell, Plan
from k3bundle.verdict import CellResult, Claim

__all__ = ["package_claims"]

_NO_ENGINE: Final = "No engine ran, so there are no arms to compare."


def package_claims(
    plan: Plan, isolation: Isolation, cells: Sequence[CellResult]
) -> tuple[Claim, Claim, Claim, Claim]:
    """The claims in the order isolated, bounded, correct, faster.

    Args:
        plan: A package plan.
        isolation: The finding on isolation: altered files fail it also where no engine runs.
        cells: The result of every planned cell, in plan order.
    """
    return (
        make_claim("isolated", isolation.status, isolation.sentence, ()),
        make_claim("bounded", "NOT_CLAIMED", _NO_ENGINE, ()),
        _correct(plan, cells),
        make_claim("faster", "NOT_CLAIMED", "The kernels tier never claims speed.", ()),
    )


def _correct(plan: Plan, cells: Sequence[CellResult]) -> Claim:
    judged = [
        result
        for planned, result in zip(plan.cells, cells, strict=True)
        if isinstance(planned, KernelCell) and planned.task != "bench"
    ]
    checks = [c for c in plan.cells if isinstance(c, KernelCell) and c.task == "check"]
    if not checks:
        sentence = "The plan has no check, so nothing shows that the kernels are right."
        return make_claim("correct", "NOT_CLAIMED", sentence, judged)
    worst = worst_of(judged)
    if worst is not None:
        return make_claim("correct", claim_status(worst), about(worst), judged)
    ops = len({op for cell in checks for op in cell.ops})
    audited = "" if len(judged) == len(checks) else ", and no read comes too early"
    sentence = f"Every case of {counted(ops, 'op')} passes against its reference{audited}."
    return make_claim("correct", "PASS", sentence, judged)
