"""The rule of a feature cell: does the candidate keep what the baseline can do?"""

from k3bundle.derive.cell_context import CellContext
from k3bundle.derive.features import FeatureChecks, check_feature, feature_refusal
from k3bundle.derive.problem import Problem
from k3bundle.derive.sentences import clip
from k3bundle.plan import FeatureCell
from k3bundle.subject import ArmName
from k3bundle.verdict import CellFail, CellInvalid, CellPass, FeatureEvidence

__all__ = ["judge_feature"]


def judge_feature(context: CellContext, cell: FeatureCell) -> CellPass | CellFail | CellInvalid:
    """Judge one feature cell over all boots of both arms."""
    refusal = feature_refusal(cell)
    problem = context.missing(cell)
    if problem is None and refusal is not None:
        problem = Problem("undecided", refusal)
    if problem is None and context.synthetic is not None:
        reason = f"{context.synthetic} Its tokens are not the model's answer."
        problem = Problem("synthetic_acceptance", reason)
    if problem is not None:
        return context.invalid(problem, None)
    baseline = _checks(context, cell, "baseline")
    candidate = _checks(context, cell, "candidate")
    failures = (*candidate.failures, *baseline.failures)
    evidence = FeatureEvidence(
        baseline_passed=baseline.passed,
        baseline_total=baseline.total,
        candidate_passed=candidate.passed,
        candidate_total=candidate.total,
        first_failure=clip(failures[0]) if failures else None,
    )
    problem = _unstable(context, cell, baseline, candidate)
    if problem is not None:
        return context.invalid(problem, evidence)
    if candidate.failed_requests:
        reason = _failure_words(cell, candidate, candidate.failed_requests[0])
        return context.failed(reason, evidence)
    problem = context.coverage()
    if problem is not None:
        return context.invalid(problem, evidence)
    if candidate.failures:
        return context.failed(_failure_words(cell, candidate, candidate.failures[0]), evidence)
    return context.passed(_pass_reason(context, cell, baseline, candidate), evidence)


def _checks(context: CellContext, cell: FeatureCell, arm: ArmName) -> FeatureChecks:
    found = [check_feature(cell, boot) for boot in context.of_arm(arm)]
    return FeatureChecks(
        passed=sum(checks.passed for checks in found),
        total=sum(checks.total for checks in found),
        failures=tuple(words for checks in found for words in checks.failures),
        failed_requests=tuple(words for checks in found for words in checks.failed_requests),
    )


def _unstable(
    context: CellContext, cell: FeatureCell, baseline: FeatureChecks, candidate: FeatureChecks
) -> Problem | None:
    name = cell.feature
    if baseline.failures:
        return Problem(
            "baseline_unstable",
            f"The baseline itself passes only {baseline.passed} of {baseline.total} {name} "
            f"checks, so the candidate cannot be judged: {baseline.failures[0]}.",
        )
    if not context.paired and candidate.failures:
        return Problem(
            "baseline_unstable",
            f"The server passes only {candidate.passed} of {candidate.total} {name} checks, and "
            f"there is no baseline to compare with: {candidate.failures[0]}.",
        )
    return None


def _failure_words(cell: FeatureCell, candidate: FeatureChecks, first: str) -> str:
    return (
        f"The candidate passes {candidate.passed} of {candidate.total} {cell.feature} checks, the "
        f"baseline all of them; the first failure: {first}."
    )


def _pass_reason(
    context: CellContext, cell: FeatureCell, baseline: FeatureChecks, candidate: FeatureChecks
) -> str:
    if not context.paired:
        total = baseline.total + candidate.total
        return f"The server passes all {total} {cell.feature} checks."
    return (
        f"The candidate passes {candidate.passed} of {candidate.total} {cell.feature} checks, the "
        f"baseline {baseline.passed} of {baseline.total}."
    )
