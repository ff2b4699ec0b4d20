"""What a journal says is done: finished cells by slot. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from k3bundle.plan import Plan
from k3bundle.run import CellEvent
from k3bundle.schedule import DueCell, RunnableCell, cells_in, due_in

__all__ = ["RunState", "RunnableCell", "state_of"]

_CELL: TypeAdapter[CellEvent] = TypeAdapter(CellEvent)


@dataclass
class RunState:
    """Progress of a run. Grows as the run goes on."""

    finished: set[tuple[int, str]] = field(default_factory=set)
    """(slot, cell) pairs that are finished."""

    def missing_cells(self, plan: Plan, slot: int) -> tuple[RunnableCell, ...]:
        """Cells with requests that the slot runs and has not finished, in plan order."""
        planned = next(one for one in plan.boots if one.slot == slot)
        return tuple(
            cell for cell in cells_in(plan, planned) if (slot, cell.cell_id) not in self.finished
        )

    def due_cells(self, plan: Plan, slot: int) -> tuple[DueCell, ...]:
        """Cells of any kind that the slot runs and has not finished, in plan order."""
        planned = next(one for one in plan.boots if one.slot == slot)
        return tuple(
            cell for cell in due_in(plan, planned) if (slot, cell.cell_id) not in self.finished
        )


def state_of(cell_lines: Iterable[bytes]) -> RunState:
    """The state that journal lines describe."""
    state = RunState()
    for line in cell_lines:
        cell = _CELL.validate_json(line)
        if cell.event == "finished":
            state.finished.add((cell.slot, cell.cell_id))
    return state
