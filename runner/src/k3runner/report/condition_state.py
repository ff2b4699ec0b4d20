"""What became of one planned cell, in the words of the page of conditions. Pure."""

from dataclasses import dataclass
from typing import Final, Literal

from k3bundle.plan import CellPlan, Plan, ServingCell, SkippedCell
from k3bundle.verdict import CellInvalid, CellResult, CellSkipped, ServingEvidence
from k3runner.status_mark import Tone

__all__ = ["STATES", "Condition", "State", "StateWords", "condition_of"]

State = Literal[
    "fell_short",
    "measures_stock",
    "not_judged",
    "undecided",
    "not_measured",
    "excused",
    "not_claimed",
    "left_to_stock",
    "not_slower",
    "reported",
    "measured",
    "faster",
]
"""What can be said of a condition, what a reader must not miss first."""


@dataclass(frozen=True)
class StateWords:
    """How a state is shown."""

    glyph: str
    words: str
    tone: Tone
    meaning: str


STATES: Final[dict[State, StateWords]] = {
    "fell_short": StateWords("✕", "fell short", "bad", "Measured, and it failed what was asked."),
    "measures_stock": StateWords(
        "!", "measures stock", "odd", "The stock path served the candidate: nothing is shown."
    ),
    "not_judged": StateWords("!", "not judged", "odd", "Ran, and cannot be believed; see report."),
    "undecided": StateWords("≈", "undecided", "warn", "Measured; the interval holds the limit."),
    "not_measured": StateWords(
        "\N{EN DASH}", "not measured", "quiet", "Declared, and nothing is known of it from here."
    ),
    "excused": StateWords("○", "excused", "quiet", "Need not be faster, for a declared reason."),
    "not_claimed": StateWords(
        "\N{EN DASH}", "not claimed", "quiet", "The subject does not claim to serve it."
    ),
    "left_to_stock": StateWords(
        "↩", "left to stock", "quiet", "The path steps aside by declaration; it is not slower."
    ),
    "not_slower": StateWords("✓", "not slower", "good", "Measured: within the margin."),
    "reported": StateWords("✓", "measured", "good", "Measured; this tier does not judge speed."),
    "measured": StateWords("✓", "measured", "good", "Measured, and what was asked of it held."),
    "faster": StateWords("✓", "faster", "good", "Measured: the lower bound is above the limit."),
}
"""State -> how it is shown, in the order of `State`."""


@dataclass(frozen=True)
class Condition:
    """One cell, and what became of it."""

    cell_id: str
    state: State
    detail: str
    """Reason of the verdict, or of the excuse."""


def condition_of(planned: CellPlan, result: CellResult, plan: Plan) -> Condition:
    """Return the condition of one cell.

    Args:
        planned: The cell of the plan.
        result: Its result.
        plan: The plan, which says whether speed is judged.
    """
    detail = result.reason
    if isinstance(planned, SkippedCell) or isinstance(result, CellSkipped):
        unsupported = isinstance(planned, SkippedCell) and planned.cause == "unsupported"
        state: State = "not_claimed" if unsupported else "not_measured"
        return Condition(result.cell_id, state, detail)
    if isinstance(result, CellInvalid):
        missing = result.cause == "missing_boots"
        state = "not_measured" if missing else "not_judged"
        if result.cause == "measures_stock":
            state = "measures_stock"
        return Condition(result.cell_id, state, detail)
    if result.status == "FAIL":
        return Condition(result.cell_id, "fell_short", detail)
    if result.status == "INCONCLUSIVE":
        return Condition(result.cell_id, "undecided", detail)
    return Condition(result.cell_id, _passed(planned, result, plan), detail)


def _passed(planned: CellPlan, result: CellResult, plan: Plan) -> State:
    timed = not isinstance(result, CellSkipped) and isinstance(result.evidence, ServingEvidence)
    if not isinstance(planned, ServingCell) or not timed:
        return "measured"
    if planned.speed.kind == "excused":
        return "excused"
    if planned.expects_fallback:
        return "left_to_stock"
    if not plan.gates.claims_speed:
        return "reported"
    return "faster" if planned.speed.kind == "superiority" else "not_slower"
