"""Which serving cells got slower: another question than whether all of them are faster.

Looking at 28 cells, one of them falls below its baseline by chance nearly always, so the p-values
are adjusted by Holm's procedure before a cell is named.
"""

from collections.abc import Sequence

from k3bundle.derive.holm import adjusted_p_values
from k3bundle.derive.speed_rule import throughput
from k3bundle.plan import Plan
from k3bundle.verdict import (
    CellInvalid,
    CellResult,
    CellSkipped,
    RatioInterval,
    Regression,
    ServingEvidence,
)

__all__ = ["find_regressions"]


def find_regressions(plan: Plan, cells: Sequence[CellResult]) -> tuple[Regression, ...]:
    """The cells that regressed, the surest first; none where the plan does not judge speed."""
    if not plan.gates.claims_speed:
        return ()
    intervals: dict[str, RatioInterval] = {}
    for cell in cells:
        if isinstance(cell, CellSkipped | CellInvalid):
            continue
        if isinstance(cell.evidence, ServingEvidence):
            interval = throughput(cell.evidence)
            if interval is not None and interval.slower_p_value is not None:
                intervals[cell.cell_id] = interval
    p_values = {
        cell_id: interval.slower_p_value
        for cell_id, interval in intervals.items()
        if interval.slower_p_value is not None
    }
    return tuple(
        Regression(cell_id=cell_id, ratio=intervals[cell_id].ratio, adjusted_p_value=p_value)
        for cell_id, p_value in adjusted_p_values(p_values).items()
        if p_value <= 1 - plan.gates.confidence
    )
