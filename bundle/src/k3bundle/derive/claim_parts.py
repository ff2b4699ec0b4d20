"""How a claim is written, and which of several cell results decides it."""

from collections.abc import Sequence
from typing import Final, Literal

from k3bundle.derive.plan_shape import arms_alike
from k3bundle.derive.sentences import clip
from k3bundle.plan import Plan
from k3bundle.verdict import CellResult, Claim, ClaimName

__all__ = [
    "ONE_SERVER",
    "SAME_ARMS",
    "ClaimStatus",
    "about",
    "claim_status",
    "make_claim",
    "uncompared",
    "worst_of",
]

ClaimStatus = Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "NOT_CLAIMED"]

ONE_SERVER: Final = "One server was measured; there is no arm to compare with."
SAME_ARMS: Final = (
    "Both arms are started the same way, so what differs between them is noise, and nothing is "
    "shown of a change."
)
_ORDER: Final = ("FAIL", "INVALID", "INCONCLUSIVE")


def uncompared(plan: Plan) -> str | None:
    """Why a plan compares nothing with anything else, in a sentence; None where it does."""
    if plan.pairing == "single":
        return ONE_SERVER
    return SAME_ARMS if arms_alike(plan) else None


def worst_of(cells: Sequence[CellResult]) -> CellResult | None:
    """The first cell of the worst status; None when all pass or are skipped."""
    for status in _ORDER:
        for cell in cells:
            if cell.status == status:
                return cell
    return None


def claim_status(cell: CellResult) -> ClaimStatus:
    """The status of a claim that this cell decides."""
    return "INVALID" if cell.status == "SKIPPED" else cell.status


def about(cell: CellResult) -> str:
    """The cell and its reason."""
    return f"Cell {cell.cell_id}: {cell.reason}"


def make_claim(
    name: ClaimName, status: ClaimStatus, sentence: str, cells: Sequence[CellResult]
) -> Claim:
    """A claim that rests on cells."""
    return Claim(
        name=name,
        status=status,
        sentence=clip(sentence),
        cells=tuple(cell.cell_id for cell in cells),
    )
