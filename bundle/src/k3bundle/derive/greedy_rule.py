"""The rule of a greedy cell: do both arms give the same tokens?"""

from collections.abc import Sequence

from k3bundle.derive.cell_context import CellContext
from k3bundle.derive.greedy import Comparison, Totals, compare, total, unusable
from k3bundle.derive.problem import Problem
from k3bundle.derive.requests_check import length_problem, measured_requests
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import percent
from k3bundle.plan import Gates, GreedyCell
from k3bundle.request import RequestRecord
from k3bundle.verdict import CellFail, CellInvalid, CellPass, GreedyEvidence

__all__ = ["judge_greedy"]


def judge_greedy(context: CellContext, cell: GreedyCell) -> CellPass | CellFail | CellInvalid:
    """Judge one greedy cell: pairs of boots against each other, the baseline against itself."""
    baseline = context.of_arm("baseline")
    problem = (
        context.missing(cell)
        or _nothing_to_compare(context)
        or _synthetic(context)
        or _unusable_baseline(baseline)
        or length_problem(cell, [(boot, measured_requests(boot)) for boot in baseline])
    )
    if problem is not None:
        return context.invalid(problem, None)
    return _judge_answers(context, baseline)


def _judge_answers(
    context: CellContext, baseline: tuple[CellBoot, ...]
) -> CellPass | CellFail | CellInvalid:
    gates = context.plan.gates
    comparisons = {c.slot.slot: _compare_boots(b, c, gates) for b, c in context.paired_boots()}
    totals = total([comparison for boot in comparisons.values() for comparison in boot])
    noise = [c for other in baseline[1:] for c in _compare_boots(baseline[0], other, gates)]
    evidence = _evidence(totals, total(noise).differences)
    refusal = _unusable_candidate(context)
    if refusal is not None:
        return context.failed(refusal, evidence)
    problem = context.coverage() or _unstable(evidence)
    reason = None if problem else _difference(comparisons, totals, gates)
    if reason is not None:
        return context.failed(reason, evidence)
    problem = problem or _undecided(totals, gates)
    if problem is not None:
        return context.invalid(problem, evidence)
    return context.passed(_pass_reason(totals, gates), evidence)


def _nothing_to_compare(context: CellContext) -> Problem | None:
    if context.paired_boots():
        return None
    return Problem(
        "missing_boots", "There is no pair of a baseline and a candidate boot to compare."
    )


def _synthetic(context: CellContext) -> Problem | None:
    if context.synthetic is None:
        return None
    reason = f"{context.synthetic} Its tokens are not the model's answer."
    return Problem("synthetic_acceptance", reason)


def _unusable_baseline(baseline: Sequence[CellBoot]) -> Problem | None:
    for boot in baseline:
        for request in measured_requests(boot):
            why = unusable(request)
            if why is not None:
                where = f"Prompt {request.index} in boot {boot.slot.slot} (baseline)"
                return Problem("failed_requests", f"{where} {why}, so nothing can be compared.")
    return None


def _unusable_candidate(context: CellContext) -> str | None:
    found: list[str] = []
    for boot in context.of_arm("candidate"):
        for request in measured_requests(boot):
            why = unusable(request)
            if why is not None:
                found.append(f"prompt {request.index} in boot {boot.slot.slot} {why}")
    if not found:
        return None
    return f"The candidate did not answer {len(found)} requests that the baseline did: {found[0]}."


def _compare_boots(first: CellBoot, second: CellBoot, gates: Gates) -> list[Comparison]:
    others = {request.index: request for request in measured_requests(second)}
    return [
        compare(request, others[request.index], gates)
        for request in measured_requests(first)
        if _usable(request) and request.index in others and _usable(others[request.index])
    ]


def _usable(request: RequestRecord) -> bool:
    return unusable(request) is None


def _evidence(totals: Totals, self_differences: int) -> GreedyEvidence:
    return GreedyEvidence(
        compared_requests=totals.compared,
        compared_positions=totals.positions,
        decided_share=totals.decided_share,
        identical_requests=totals.identical,
        ties=totals.ties,
        differences=totals.differences,
        largest_logprob_difference_nats=totals.largest_logprob_difference_nats,
        baseline_self_differences=self_differences,
    )


def _unstable(evidence: GreedyEvidence) -> Problem | None:
    if evidence.baseline_self_differences == 0:
        return None
    return Problem(
        "baseline_unstable",
        f"The baseline differs from itself in {evidence.baseline_self_differences} requests "
        "between its own boots, so a difference of the candidate would show nothing.",
    )


def _difference(
    comparisons: dict[int, list[Comparison]], totals: Totals, gates: Gates
) -> str | None:
    for slot, found in sorted(comparisons.items()):
        for one in found:
            if one.outcome == "difference":
                return (
                    f"The candidate gives other tokens on {totals.differences} of "
                    f"{totals.compared} compared requests; the first is prompt {one.index} in boot "
                    f"{slot}, at position {one.position}, which is not a tie of the baseline."
                )
            if one.logprobs_missing:
                return (
                    f"The candidate gives no log-probabilities for prompt {one.index} in boot "
                    f"{slot}, where the baseline gives them."
                )
    if totals.largest_logprob_difference_nats > gates.logprob_tolerance_nats:
        return (
            "Log-probabilities of equal tokens differ by up to "
            f"{totals.largest_logprob_difference_nats:.3g} nats between the arms; at most "
            f"{gates.logprob_tolerance_nats:g} nats are allowed."
        )
    return None


def _undecided(totals: Totals, gates: Gates) -> Problem | None:
    if totals.decided_share >= gates.minimum_decided_share and totals.positions > 0:
        return None
    return Problem(
        "undecided",
        f"The baseline's choice is decided at only {totals.decided} of {totals.positions} compared "
        f"positions ({percent(totals.decided_share)}); at least "
        f"{percent(gates.minimum_decided_share)} are required for equal tokens to mean anything.",
    )


def _pass_reason(totals: Totals, gates: Gates) -> str:
    ties = (
        ""
        if totals.ties == 0
        else f", and part at a tie of the baseline on the other {totals.ties}"
    )
    return (
        f"Both arms give the same tokens on {totals.identical} of {totals.compared} compared "
        f"requests{ties}; {percent(totals.decided_share)} of {totals.positions} positions are "
        "decided; log-probabilities differ by at most "
        f"{totals.largest_logprob_difference_nats:.3g} nats, "
        f"{gates.logprob_tolerance_nats:g} nats are allowed."
    )
