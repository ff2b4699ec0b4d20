"""Ways to change a healthy run."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from k3bundle.bundle import RunRecords
from k3bundle.coverage import CoverageSnapshot, EngineCounters
from k3bundle.request import RequestRecord
from k3bundle.run import CellEvent

from .records import failed

Change = Callable[[RequestRecord], RequestRecord]


def fail(request: RequestRecord) -> RequestRecord:
    """The same request, failed before its first token."""
    return request.model_copy(
        update={"outcome": failed(), "events": (), "token_ids": None, "logprobs": None}
    )


def change_requests(
    records: RunRecords,
    change: Change,
    *,
    cell: str | None = None,
    slots: Iterable[int] | None = None,
    index: int | None = None,
    variant: str | None = None,
) -> RunRecords:
    """The same run with `change` applied to the requests that match."""
    boots = None if slots is None else {f"boot-{slot}.0" for slot in slots}

    def matches(request: RequestRecord) -> bool:
        return (
            (cell is None or request.cell_id == cell)
            and (boots is None or request.boot_id in boots)
            and (index is None or request.index == index)
            and (variant is None or request.variant == variant)
        )

    changed = tuple(change(r) if matches(r) else r for r in records.requests)
    return replace(records, requests=changed)


def update(**changes: Any) -> Change:
    """A change that sets fields."""
    return lambda request: request.model_copy(update=changes)


def with_coverage(
    records: RunRecords, cell_id: str, slot: int, *snapshots: CoverageSnapshot
) -> RunRecords:
    """The same run with other coverage snapshots around one cell in one boot."""
    boot_id = f"boot-{slot}.0"
    kept = tuple(s for s in records.coverage if (s.boot_id, s.cell_id) != (boot_id, cell_id))
    return replace(records, coverage=(*kept, *snapshots))


def with_counters(
    records: RunRecords, cell_id: str, slot: int, *snapshots: EngineCounters
) -> RunRecords:
    """The same run with other engine counters around one cell in one boot."""
    boot_id = f"boot-{slot}.0"
    kept = tuple(s for s in records.counters if (s.boot_id, s.cell_id) != (boot_id, cell_id))
    return replace(records, counters=(*kept, *snapshots))


def without_cells(records: RunRecords, drop: Callable[[CellEvent], bool]) -> RunRecords:
    """The same run without some cell events."""
    return replace(records, cells=tuple(event for event in records.cells if not drop(event)))


def with_config(records: RunRecords, slot: int, config: dict[str, str]) -> RunRecords:
    """The same run where one boot reports another effective configuration."""
    boots = tuple(
        event.model_copy(update={"effective_config": config})
        if event.event == "ready" and event.boot_id == f"boot-{slot}.0"
        else event
        for event in records.boots
    )
    return replace(records, boots=boots)
