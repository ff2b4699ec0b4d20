"""What a journal says is done: finished cells by slot. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeGuard

from pydantic import TypeAdapter

from k3bundle.plan import CellPlan, FeatureCell, GreedyCell, Plan, ServingCell
from k3bundle.run import CellEvent

__all__ = ["RunState", "RunnableCell", "state_of"]

RunnableCell = ServingCell | GreedyCell | FeatureCell
_CELL: TypeAdapter[CellEvent] = TypeAdapter(CellEvent)


@dataclass
class RunState:
    """Progress of a run. Grows as the run goes on."""

    finished: set[tuple[int, str]] = field(default_factory=set)
    """(slot, cell) pairs that are finished."""

    def missing_cells(self, plan: Plan, slot: int) -> tuple[RunnableCell, ...]:
        """Cells of the plan that the slot has not finished, in plan order."""
        return tuple(
            cell
            for cell in plan.cells
            if is_runnable(cell) and (slot, cell.cell_id) not in self.finished
        )


def is_runnable(cell: CellPlan) -> TypeGuard[RunnableCell]:
    """Whether a cell is run at all."""
    return cell.kind != "skipped"


def state_of(cell_lines: Iterable[bytes]) -> RunState:
    """The state that journal lines describe."""
    state = RunState()
    for line in cell_lines:
        cell = _CELL.validate_json(line)
        if cell.event == "finished":
            state.finished.add((cell.slot, cell.cell_id))
    return state
