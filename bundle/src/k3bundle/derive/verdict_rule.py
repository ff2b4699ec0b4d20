"""From the records of a run to its verdict.

The status is the worst of what was found, FAIL before INVALID before INCOMPLETE before
INCONCLUSIVE before PASS. PASS needs at least one judged cell and the claims isolated, bounded and
correct; where the tier claims speed, also faster.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from k3bundle.bundle import RunRecords
from k3bundle.derive.cell_rules import judge_cells
from k3bundle.derive.claim_parts import SAME_ARMS
from k3bundle.derive.claims import judge_claims
from k3bundle.derive.earlier_runs import earlier_limits, run_words
from k3bundle.derive.faster_claim import speed_cells
from k3bundle.derive.headline import headline_numbers
from k3bundle.derive.isolation import Isolation, judge_isolation
from k3bundle.derive.plan_shape import arms_alike, pairs
from k3bundle.derive.regressions import find_regressions
from k3bundle.derive.selection import Selection, select
from k3bundle.derive.sentences import clip, counted, listed, percent
from k3bundle.kernel_evidence import KernelTimingEvidence
from k3bundle.plan import Plan
from k3bundle.standard_gates import looser_than_standard
from k3bundle.verdict import (
    CellInvalid,
    CellResult,
    CellSkipped,
    Claim,
    GreedyEvidence,
    HeadlineNumber,
    ServingEvidence,
    Verdict,
)

__all__ = ["derive"]

_Status = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "INCOMPLETE"]

_SHOWN: Final = 4
"""Phrases that one sentence holds."""
_WORST_FIRST: Final[tuple[_Status, ...]] = ("FAIL", "INVALID", "INCOMPLETE", "INCONCLUSIVE")


def derive(records: RunRecords) -> Verdict:
    """Derive the verdict of a run from its raw records.

    Pure, deterministic and total: the same records give the same verdict on every machine, the
    order of request lines does not matter, and no records make it raise.

    Args:
        records: What the run recorded; the run may be unfinished.

    Returns:
        The verdict, with the result of every planned cell and the four claims.
    """
    selection = select(records)
    cells = judge_cells(records, selection)
    isolation = judge_isolation(records, selection)
    claims = judge_claims(records, isolation, cells)
    headline = headline_numbers(records.plan, cells, selection)
    found = list(_findings(records.plan, isolation, cells, claims))
    status: _Status = "PASS"
    words = (
        _package_words(claims, cells)
        if records.plan.pairing == "package"
        else _pass_words(records.plan, cells, headline)
    )
    for candidate in _WORST_FIRST:
        reasons = [reason for found_status, reason in found if found_status == candidate]
        if reasons:
            status, words = candidate, _words(candidate, reasons)
            break
    return Verdict(
        status=status,
        sentence=clip(f"{status}: {words}{_restriction(records.plan)}{run_words(records)}"),
        claims=claims,
        cells=cells,
        headline=headline,
        regressions=find_regressions(records.plan, cells),
        resumed=len(records.attempts) > 1 or any(a.resumed for a in records.attempts),
        limits=(*_limits(records.plan, selection, cells), *earlier_limits(records)),
    )


def _limits(plan: Plan, selection: Selection, cells: Sequence[CellResult]) -> tuple[str, ...]:
    """The plan's own limits, and those that only a look at plan and records shows."""
    looser = looser_than_standard(plan)
    found = list(plan.limits)
    if plan.only_deployments:
        found.append(_left_out(plan))
    if looser:
        more = f" and {len(looser) - _SHOWN} more" if len(looser) > _SHOWN else ""
        shown = "; ".join(looser[:_SHOWN])
        found.append(f"The plan asks for less than the {plan.tier} tier: {shown}{more}.")
    apart = [
        f"pair {pair.number}"
        for pair in pairs(plan)
        if len(selection.attempts(pair.baseline.slot, pair.candidate.slot)) > 1
    ]
    if apart:
        found.append(f"Boots of {listed(apart)} are of several attempts, so not close in time.")
    silent = [
        cell.cell_id
        for cell in cells
        if not isinstance(cell, CellSkipped)
        and isinstance(cell.evidence, ServingEvidence)
        and any(boot.telemetry_missing is not None for boot in cell.evidence.boots)
    ]
    if silent:
        found.append(f"Nothing is known of clocks and heat during {listed(silent)}: no telemetry.")
    return tuple(clip(sentence) for sentence in found)


def _restriction(plan: Plan) -> str:
    """What every sentence about a restricted or a looser plan has to say too."""
    only = plan.only_deployments
    words = f" Said of {listed(only)} only, as was asked for." if only else ""
    if looser_than_standard(plan):
        words += f" The plan asks for less than the {plan.tier} tier, so this is no result of it."
    return words


def _left_out(plan: Plan) -> str:
    names = [one.name for one in plan.scope.deployments if one.name not in plan.only_deployments]
    rest = f"; the subject also declares {listed(names)}" if names else ""
    return f"Only {listed(plan.only_deployments)} was evaluated, as asked for{rest}."


def _findings(
    plan: Plan, isolation: Isolation, cells: Sequence[CellResult], claims: Sequence[Claim]
) -> Iterator[tuple[_Status, str]]:
    """Everything that keeps the run from PASS, the most telling first."""
    if all(isinstance(cell, CellSkipped) for cell in cells):
        yield "INCOMPLETE", "No cell was judged, because the plan skips them all."
    if plan.pairing == "single":
        yield "INCOMPLETE", "One server was measured, so there is nothing to compare it with."
    if arms_alike(plan):
        yield "INCOMPLETE", SAME_ARMS
    for cell in cells:
        if isinstance(cell, CellSkipped) or cell.status == "PASS":
            continue
        missing = isinstance(cell, CellInvalid) and cell.cause == "missing_boots"
        reason = f"{cell.reason.rstrip('.')} (cell {cell.cell_id})."
        yield ("INCOMPLETE" if missing else cell.status), reason
    if isolation.status == "FAIL":
        yield "FAIL", isolation.sentence
    elif isolation.status == "INVALID":
        yield ("INCOMPLETE" if isolation.for_want_of_boots else "INVALID"), isolation.sentence
    for claim in claims:
        if claim.status == "NOT_CLAIMED" and _is_owed(claim, plan):
            yield "INCOMPLETE", f"Not claimed: {claim.name}. {claim.sentence}"


def _is_owed(claim: Claim, plan: Plan) -> bool:
    """Whether a plan that passes has to make the claim."""
    if plan.pairing == "package":
        return claim.name == "correct"
    return claim.name != "faster" or plan.gates.claims_speed


def _words(status: _Status, reasons: Sequence[str]) -> str:
    rest = len(reasons) - 1
    more = f" {counted(rest, f'more finding is {status}', f'more findings are {status}')}."
    return f"{clip(reasons[0], 1500)}{more if rest else ''}"


def _package_words(claims: Sequence[Claim], cells: Sequence[CellResult]) -> str:
    correct = next(claim for claim in claims if claim.name == "correct")
    timed = sum(
        len(cell.evidence.timings)
        for cell in cells
        if not isinstance(cell, CellSkipped) and isinstance(cell.evidence, KernelTimingEvidence)
    )
    said = correct.sentence[:1].lower() + correct.sentence[1:].rstrip(".")
    times = f"; {counted(timed, 'case')} timed" if timed else ""
    return f"{said}{times}. Nothing is said of serving."


def _pass_words(plan: Plan, cells: Sequence[CellResult], headline: Sequence[HeadlineNumber]) -> str:
    greedy = [
        cell.evidence
        for cell in cells
        if not isinstance(cell, CellSkipped) and isinstance(cell.evidence, GreedyEvidence)
    ]
    compared = sum(evidence.compared_requests for evidence in greedy)
    identical = sum(evidence.identical_requests for evidence in greedy)
    ties = sum(evidence.ties for evidence in greedy)
    words = f"both arms give the same tokens on {identical} of {compared} compared requests"
    if ties:
        words += f" and part at a tie of the baseline on the other {ties}"
    for number in headline:
        if number.name == "decode_coverage_share":
            at_least = "" if number.value == 1 else "at least "
            words += (
                f", the candidate path served {at_least}{percent(number.value)} of decode steps"
            )
    words += (
        f"; the candidate is faster in {speed_cells(plan, cells).count()}."
        if plan.gates.claims_speed
        else f"; speed is not judged by {plan.tier}."
    )
    skipped = sum(isinstance(cell, CellSkipped) for cell in cells)
    return f"{words} {counted(skipped, 'cell')} skipped." if skipped else words
