"""Boots and cells of a run looked up by name, for the rules that compare records."""

from dataclasses import dataclass

from k3bundle.bundle import RunRecords
from k3bundle.plan import BootSlot, SkippedCell
from k3bundle.run import BootReady, BootStarted, CellFinished
from k3bundle.schedule import DueCell

__all__ = ["Journal", "index_journal"]


@dataclass(frozen=True)
class Journal:
    """What was planned, started and finished. Where a name repeats, the last one is kept."""

    slots: dict[int, BootSlot]
    cells: dict[str, DueCell]
    started: dict[str, BootStarted]
    ready: frozenset[str]
    finished: dict[tuple[str, str], CellFinished]
    """(boot id, cell id) -> the line that says the cell finished."""


def index_journal(records: RunRecords) -> Journal:
    """Index the plan and the journal of a run."""
    return Journal(
        slots={slot.slot: slot for slot in records.plan.boots},
        cells={c.cell_id: c for c in records.plan.cells if not isinstance(c, SkippedCell)},
        started={e.boot_id: e for e in records.boots if isinstance(e, BootStarted)},
        ready=frozenset(e.boot_id for e in records.boots if isinstance(e, BootReady)),
        finished={(e.boot_id, e.cell_id): e for e in records.cells if isinstance(e, CellFinished)},
    )
