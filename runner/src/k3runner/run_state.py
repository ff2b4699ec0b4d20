"""What a journal says is done: finished cells by slot, boot numbers used. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeGuard

from pydantic import TypeAdapter

from k3bundle.plan import CellPlan, FeatureCell, GreedyCell, Plan, ServingCell
from k3bundle.run import BootEvent, CellEvent

__all__ = ["RunState", "RunnableCell", "state_of"]

RunnableCell = ServingCell | GreedyCell | FeatureCell
_CELL: TypeAdapter[CellEvent] = TypeAdapter(CellEvent)
_BOOT: TypeAdapter[BootEvent] = TypeAdapter(BootEvent)


@dataclass
class RunState:
    """Progress of a run. Grows as the run goes on."""

    finished: set[tuple[int, str]] = field(default_factory=set)
    """(slot, cell) pairs that are finished."""
    last_start: dict[int, int] = field(default_factory=dict)
    """Slot -> last number used in a boot id."""

    def missing_cells(self, plan: Plan, slot: int) -> tuple[RunnableCell, ...]:
        """Cells of the plan that the slot has not finished, in plan order."""
        return tuple(
            cell
            for cell in plan.cells
            if is_runnable(cell) and (slot, cell.cell_id) not in self.finished
        )

    def next_boot_id(self, slot: int, attempt: int) -> str:
        """A boot id that was never used: the attempt's number, or a higher one."""
        number = max(attempt, self.last_start.get(slot, -1) + 1)
        self.last_start[slot] = number
        return f"boot-{slot}.{number}"


def is_runnable(cell: CellPlan) -> TypeGuard[RunnableCell]:
    """Whether a cell is run at all."""
    return cell.kind != "skipped"


def state_of(boot_lines: Iterable[bytes], cell_lines: Iterable[bytes]) -> RunState:
    """The state that journal lines describe."""
    state = RunState()
    for line in boot_lines:
        boot = _BOOT.validate_json(line)
        slot, number = (int(part) for part in boot.boot_id.removeprefix("boot-").split("."))
        state.last_start[slot] = max(number, state.last_start.get(slot, -1))
    for line in cell_lines:
        cell = _CELL.validate_json(line)
        if cell.event == "finished":
            state.finished.add((cell.slot, cell.cell_id))
    return state
