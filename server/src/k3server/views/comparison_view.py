"""What the page of a comparison shows. Pure."""

from dataclasses import dataclass

from k3bundle.verdict import CellSkipped, RatioInterval, ServingEvidence
from k3server.comparability import differences_of_results, independent, reasons_against
from k3server.document import SubmissionDocument
from k3server.submission import Submission

__all__ = ["CellPair", "ComparisonView", "RatioPair", "comparison_view"]


@dataclass(frozen=True)
class CellPair:
    """One cell in both submissions."""

    cell_id: str
    one: str | None
    """Status in the first submission; None when it has no such cell."""
    other: str | None


@dataclass(frozen=True)
class RatioPair:
    """One ratio in both submissions."""

    cell_id: str
    metric: str
    one: RatioInterval | None
    other: RatioInterval | None


@dataclass(frozen=True)
class ComparisonView:
    """Two submissions side by side, or the reasons why they are not."""

    one: Submission
    other: Submission
    reasons: tuple[str, ...]
    """Why they cannot be compared; empty when they can."""
    cells: tuple[CellPair, ...]
    ratios: tuple[RatioPair, ...]
    disagreements: tuple[str, ...]
    """Why one does not reproduce the other; empty when it does."""
    independent: bool
    """Whether they come from independent contributors."""


def comparison_view(one: Submission, other: Submission) -> ComparisonView:
    """Arrange two submissions for their page."""
    reasons = reasons_against(one.document, other.document)
    return ComparisonView(
        one=one,
        other=other,
        reasons=reasons,
        cells=() if reasons else _cells(one.document, other.document),
        ratios=() if reasons else _ratios(one.document, other.document),
        disagreements=differences_of_results(one.document, other.document),
        independent=independent(one, other),
    )


def _cells(one: SubmissionDocument, other: SubmissionDocument) -> tuple[CellPair, ...]:
    mine = {cell.cell_id: cell.status for cell in one.verdict.cells}
    theirs = {cell.cell_id: cell.status for cell in other.verdict.cells}
    names = dict.fromkeys((*mine, *theirs))
    return tuple(CellPair(name, mine.get(name), theirs.get(name)) for name in names)


def _ratios(one: SubmissionDocument, other: SubmissionDocument) -> tuple[RatioPair, ...]:
    mine, theirs = _intervals(one), _intervals(other)
    keys = dict.fromkeys((*mine, *theirs))
    return tuple(RatioPair(*key, mine.get(key), theirs.get(key)) for key in keys)


def _intervals(document: SubmissionDocument) -> dict[tuple[str, str], RatioInterval]:
    return {
        (cell.cell_id, interval.metric): interval
        for cell in document.verdict.cells
        if not isinstance(cell, CellSkipped) and isinstance(cell.evidence, ServingEvidence)
        for interval in cell.evidence.intervals
    }
