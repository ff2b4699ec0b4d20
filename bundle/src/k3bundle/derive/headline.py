"""The numbers that are shown first. Each is left out where the records do not hold it."""

from collections.abc import Iterator, Sequence

from k3bundle.derive.selection import Selection
from k3bundle.verdict import (
    CellCoverage,
    CellResult,
    CellSkipped,
    FeatureEvidence,
    GreedyEvidence,
    HeadlineNumber,
)

__all__ = ["headline_numbers"]


def headline_numbers(
    cells: Sequence[CellResult], selection: Selection
) -> tuple[HeadlineNumber, ...]:
    """The headline numbers, in a fixed order.

    Args:
        cells: The result of every planned cell, in plan order.
        selection: The records that count.
    """
    return (
        *_coverage(cells),
        *_greedy(cells),
        *_features(cells),
        _requests(selection),
    )


def _coverage(cells: Sequence[CellResult]) -> Iterator[HeadlineNumber]:
    entries = [(cell, record) for cell in cells for record in _candidate_coverage(cell)]
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
