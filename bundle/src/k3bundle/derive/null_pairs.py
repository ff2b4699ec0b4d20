"""What the A-A pairs of a serving cell say about the noise.

Two boots of the baseline differ by noise alone. With the spread s of a pair of arms, estimated with
v degrees of freedom, all null pairs of a run lie with the plan's confidence within

    exp(-+ t(1 - (1 - confidence) / (2 * looks), v) * sqrt(s^2 + e^2))

where looks counts the null pairs over all cells, and e is the standard error of a drift that is
taken out. A pair outside says that boots differ by more than the ratio's own interval knows of, so
the interval is not to be believed. The interval is never narrower than the plan's tolerance.
"""

import math
from collections.abc import Mapping

from k3bundle.derive.cell_context import CellContext
from k3bundle.derive.interval import PairValue, pair_estimate, safe_exp
from k3bundle.derive.noncentral_t import t_quantile
from k3bundle.derive.problem import Problem
from k3bundle.derive.sentences import counted, ratio
from k3bundle.verdict import NullComparison

__all__ = ["compare_null", "null_problem"]


def compare_null(
    context: CellContext, arms: list[PairValue], throughput: Mapping[int, float | None]
) -> NullComparison | None:
    """Compare the null pairs of a cell with the spread between its pairs of arms.

    Args:
        context: The cell.
        arms: Output throughput in each pair of arms.
        throughput: Slot -> output throughput.

    Returns:
        The comparison; None without a null pair, or with fewer than two pairs of arms.
    """
    gates = context.plan.gates
    found = pair_estimate(arms, drift_adjusted=gates.drift_adjusted)
    drift = 0.0 if found is None or found.drift is None else float(found.drift)
    logs: list[float] = []
    for pair in context.null_pairs:
        first, second = throughput.get(pair.first.slot), throughput.get(pair.second.slot)
        if first and second:
            logs.append(math.log(second) - math.log(first) - drift)
    if found is None or not logs:
        return None
    share = (1 - gates.confidence) / (2 * max(1, context.null_comparisons))
    spread = float(found.spread)
    error = 0.0 if found.drift_error is None else float(found.drift_error)
    half = t_quantile(found.degrees, 1 - share) * math.hypot(spread, error) if spread > 0 else 0.0
    half = max(half, math.log1p(gates.null_tolerance))
    return NullComparison(
        pairs=len(logs),
        farthest_ratio=safe_exp(max(logs, key=abs)),
        lower=safe_exp(-half),
        upper=safe_exp(half),
    )


def null_problem(null: NullComparison | None) -> Problem | None:
    """Say that the baseline differs from itself by more than the spread explains."""
    if null is None or null.lower <= null.farthest_ratio <= null.upper:
        return None
    return Problem(
        "noisy_null_pair",
        f"The baseline differs from itself: {counted(null.pairs, 'null pair')} up to "
        f"{ratio(null.farthest_ratio)}, where the spread between pairs explains "
        f"{ratio(null.lower)} to {ratio(null.upper)}, so its intervals are not to be believed.",
    )
