"""From a planned cell and the records that count to its result: one rule per kind of cell.

Every rule asks first whether the cell can be judged at all. A candidate that fails a greedy or
feature request which the baseline answers falls short, whatever else holds, so that failing more
never improves a result.
"""

from k3bundle.bundle import RunRecords
from k3bundle.derive.cell_context import CellContext
from k3bundle.derive.feature_rule import judge_feature
from k3bundle.derive.greedy_rule import judge_greedy
from k3bundle.derive.kernel_rule import judge_kernel, wrong_ops
from k3bundle.derive.path_coverage import read_coverage
from k3bundle.derive.plan_shape import arms_alike, null_pairs, pairs
from k3bundle.derive.problem import Problem
from k3bundle.derive.selection import Selection
from k3bundle.derive.serving_rule import judge_serving
from k3bundle.derive.synthetic import synthetic_acceptance
from k3bundle.plan import GreedyCell, KernelCell, Plan, ServingCell, SkippedCell
from k3bundle.schedule import DueCell, RunnableCell
from k3bundle.verdict import CellResult, CellSkipped

__all__ = ["judge_cells"]


def judge_cells(records: RunRecords, selection: Selection) -> tuple[CellResult, ...]:
    """Judge every planned cell, in plan order."""
    complete_pairs = pairs(records.plan)
    null = null_pairs(records.plan)
    comparisons = _null_comparisons(records.plan)
    synthetic = synthetic_acceptance(records)

    def context(cell: DueCell) -> CellContext:
        cell_id = cell.cell_id
        boots = selection.boots(cell_id)
        missing = selection.missing_slots(cell_id)
        return CellContext(
            plan=records.plan,
            cell_id=cell_id,
            boots=boots,
            missing_slots=missing,
            abort_reason=(selection.abort_reasons.get((missing[0], cell_id)) if missing else None),
            pairs=tuple(p for p in complete_pairs if p.baseline.deployment == cell.deployment),
            null_pairs=tuple(p for p in null if p.first.deployment == cell.deployment),
            null_comparisons=comparisons,
            readings=(
                ()
                if isinstance(cell, KernelCell)
                else tuple(read_coverage(boot, records.plan, cell) for boot in boots)
            ),
            synthetic=synthetic,
        )

    wrong = wrong_ops(records.plan, selection)

    def judge(cell: DueCell) -> CellResult:
        if isinstance(cell, KernelCell):
            commit = records.subject.change.commit_sha
            return judge_kernel(context(cell), cell, wrong, records.environment, commit)
        found = context(cell)
        result = _judge(cell, found)
        return _as_noise(cell, found, result) if arms_alike(records.plan) else result

    return tuple(
        CellSkipped(cell_id=cell.cell_id, reason=cell.reason)
        if isinstance(cell, SkippedCell)
        else judge(cell)
        for cell in records.plan.cells
    )


def _null_comparisons(plan: Plan) -> int:
    """How many times a run looks at a null pair: once in each serving cell of its deployment."""
    null = null_pairs(plan)
    serving = [cell for cell in plan.cells if isinstance(cell, ServingCell)]
    return sum(pair.first.deployment == cell.deployment for pair in null for cell in serving)


def _as_noise(cell: RunnableCell, context: CellContext, result: CellResult) -> CellResult:
    """The result of a cell of an A-A run: a difference of its arms is noise, whichever it favours.

    An arm cannot fall short of itself, nor be faster.
    """
    faster = (
        isinstance(cell, ServingCell)
        and cell.speed.kind == "superiority"
        and context.plan.gates.claims_speed
    )
    if result.status == "FAIL" or (result.status == "PASS" and faster):
        why = f"Both arms are the same, and yet they differ: {result.reason}"
        return context.invalid(Problem("noisy_null_pair", why), result.evidence)
    return result


def _judge(cell: RunnableCell, context: CellContext) -> CellResult:
    if isinstance(cell, ServingCell):
        return judge_serving(context, cell)
    if isinstance(cell, GreedyCell):
        return judge_greedy(context, cell)
    return judge_feature(context, cell)
