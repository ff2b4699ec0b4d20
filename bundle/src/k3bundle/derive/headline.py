"""The numbers that are shown first. Each is left out where the records do not hold it."""

from collections.abc import Iterator, Sequence

from k3bundle.derive.faster_claim import speed_cells
from k3bundle.derive.kernel_headline import kernel_numbers
from k3bundle.derive.selection import Selection
from k3bundle.derive.speed_rule import throughput
from k3bundle.plan import Plan, ServingCell
from k3bundle.verdict import (
    CellCoverage,
    CellResult,
    CellSkipped,
    FeatureEvidence,
    GreedyEvidence,
    HeadlineNumber,
    ServingEvidence,
)

__all__ = ["headline_numbers"]


def headline_numbers(
    plan: Plan, cells: Sequence[CellResult], selection: Selection
) -> tuple[HeadlineNumber, ...]:
    """The headline numbers, in a fixed order.

    Args:
        plan: The plan that was run.
        cells: The result of every planned cell, in plan order.
        selection: The records that count.
    """
    if plan.pairing == "package":
        return tuple(kernel_numbers(cells))
    return (
        *_speed(plan, cells),
        *_coverage(plan, cells),
        *_greedy(cells),
        *_features(cells),
        _requests(selection),
    )


def _speed(plan: Plan, cells: Sequence[CellResult]) -> Iterator[HeadlineNumber]:
    if not plan.gates.claims_speed:
        return
    found = speed_cells(plan, cells)
    if found.supported:
        yield HeadlineNumber(
            name="faster_cells",
            value=float(found.faster),
            label=f"Cells in which the candidate is faster: {found.count()}",
            cell_id=None,
        )
    effects: list[tuple[float, str]] = []
    for cell in found.judged:
        if isinstance(cell, CellSkipped) or not isinstance(cell.evidence, ServingEvidence):
            continue
        interval = throughput(cell.evidence)
        if interval is not None and interval.minimum_detectable_effect is not None:
            effects.append((interval.minimum_detectable_effect, cell.cell_id))
    if effects:
        largest, cell_id = max(effects)
        label = "Smallest gain that every cell would find with power 0.8, as a share"
        yield HeadlineNumber(
            name="minimum_detectable_gain_share", value=largest, label=label, cell_id=cell_id
        )


def _coverage(plan: Plan, cells: Sequence[CellResult]) -> Iterator[HeadlineNumber]:
    aside = {c.cell_id for c in plan.cells if isinstance(c, ServingCell) and c.expects_fallback}
    entries = [
        (cell, record)
        for cell in cells
        if cell.cell_id not in aside
        for record in _candidate_coverage(cell)
    ]
    shares = [(record.share, cell.cell_id) for cell, record in entries if record.share is not None]
    # A least share over the boots that happen to report one would hide those that do not.
    if shares and len(shares) == len(entries):
        least, cell_id = min(shares, key=lambda item: item[0])
        label = "Least share of decode steps that the candidate path served, over cells and boots"
        yield HeadlineNumber(
            name="decode_coverage_share", value=least, label=label, cell_id=cell_id
        )


def _candidate_coverage(cell: CellResult) -> tuple[CellCoverage, ...]:
    if isinstance(cell, CellSkipped):
        return ()
    return tuple(record for record in cell.coverage if record.arm == "candidate")


def _greedy(cells: Sequence[CellResult]) -> Iterator[HeadlineNumber]:
    found: list[tuple[GreedyEvidence, str]] = []
    for cell in cells:
        if not isinstance(cell, CellSkipped) and isinstance(cell.evidence, GreedyEvidence):
            found.append((cell.evidence, cell.cell_id))
    compared = sum(evidence.compared_requests for evidence, _ in found)
    if not compared:
        return
    identical = sum(evidence.identical_requests for evidence, _ in found)
    yield HeadlineNumber(
        name="identical_greedy_requests_share",
        value=identical / compared,
        label=f"Share of {compared} compared greedy requests with all tokens equal",
        cell_id=None,
    )
    largest, cell_id = max(
        ((evidence.largest_logprob_difference_nats, cell_id) for evidence, cell_id in found),
        key=lambda item: item[0],
    )
    yield HeadlineNumber(
        name="largest_logprob_difference_nats",
        value=largest,
        label="Largest difference of an equal token's log-probability between the arms, in nats",
        cell_id=cell_id,
    )


def _features(cells: Sequence[CellResult]) -> Iterator[HeadlineNumber]:
    passed = total = 0
    for cell in cells:
        if not isinstance(cell, CellSkipped) and isinstance(cell.evidence, FeatureEvidence):
            passed += cell.evidence.candidate_passed
            total += cell.evidence.candidate_total
    if total:
        yield HeadlineNumber(
            name="feature_checks_passed_share",
            value=passed / total,
            label=f"Share of {total} feature checks that the candidate passed",
            cell_id=None,
        )


def _requests(selection: Selection) -> HeadlineNumber:
    requests = [
        request
        for boots in selection.cells.values()
        for boot in boots
        for request in boot.requests
        if request.variant != "warmup"
    ]
    completed = sum(request.outcome.status == "completed" for request in requests)
    return HeadlineNumber(
        name="requests_completed",
        value=float(completed),
        label=f"Requests that completed, of {len(requests)} sent without warm-up",
        cell_id=None,
    )
