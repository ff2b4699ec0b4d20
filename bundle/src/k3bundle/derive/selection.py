"""Which records count.

A cell counts in a boot slot through the first `CellFinished` of that slot: what is finished is not
measured again until it pleases. Its requests, coverage and counters are those of the boot named
there. Records of other boots, for example one that was killed half-way, stay in the bundle and are
not read here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar

from k3bundle.bundle import RunRecords
from k3bundle.coverage import CoverageSnapshot, EngineCounters
from k3bundle.derive.plan_shape import slots, slots_of
from k3bundle.graph_record import GraphTable, KernelProfile
from k3bundle.kernel_record import KernelLine
from k3bundle.plan import BootSlot, SkippedCell
from k3bundle.request import RequestRecord
from k3bundle.run import CellFinished
from k3bundle.telemetry import TelemetrySample

__all__ = ["Bracket", "CellBoot", "Selection", "select"]


class _Snapshot(Protocol):
    @property
    def boot_id(self) -> str: ...
    @property
    def cell_id(self) -> str: ...
    @property
    def moment(self) -> Literal["before", "after"]: ...


S = TypeVar("S", bound=_Snapshot)

_Key = tuple[str, str]
"""Boot id and cell id."""


@dataclass(frozen=True)
class Bracket(Generic[S]):
    """Two snapshots around a cell; None where one is missing."""

    before: S | None
    after: S | None


_NO_COVERAGE: Final = Bracket[CoverageSnapshot](None, None)
_NO_COUNTERS: Final = Bracket[EngineCounters](None, None)
_NO_GRAPHS: Final = Bracket[GraphTable](None, None)


@dataclass(frozen=True)
class CellBoot:
    """The records of one cell in the boot that counts for one slot."""

    slot: BootSlot
    boot_id: str
    requests: tuple[RequestRecord, ...]
    """Sorted by prompt and variant, whatever the order of the lines."""
    coverage: Bracket[CoverageSnapshot]
    counters: Bracket[EngineCounters]
    finished: CellFinished
    """The line that says that the cell finished, with what the load client saw of itself."""
    samples: tuple[TelemetrySample, ...]
    """Telemetry during the cell, by time."""
    telemetry_missing: str | None
    """Why the runner had no telemetry, when it said so."""
    graphs: Bracket[GraphTable]
    """Tables of replayed graphs around the cell."""
    profiles: tuple[KernelProfile, ...]
    """Kernels of graphs by size, from a profile of the boot."""
    gpu_indices: frozenset[int]
    """Accelerators that were sampled in the boot, as the runner said at its start."""
    kernels: tuple[KernelLine, ...] = ()
    """What a kernel package said in the cell, in order."""


@dataclass(frozen=True)
class Selection:
    """The records that count."""

    slots: tuple[BootSlot, ...]
    """Slots of the plan, in order."""
    due: Mapping[str, tuple[BootSlot, ...]]
    """Cell -> slots in which the plan runs it; none for a skipped cell."""
    cells: Mapping[str, tuple[CellBoot, ...]]
    """Cell -> boots that finished it, by slot."""
    abort_reasons: Mapping[tuple[int, str], str]
    """Slot and cell -> why the cell was last aborted there."""

    def boots(self, cell_id: str) -> tuple[CellBoot, ...]:
        """The boots that finished a cell, by slot."""
        return self.cells.get(cell_id, ())

    def missing_slots(self, cell_id: str) -> tuple[int, ...]:
        """The slots in which a cell did not finish."""
        there = {boot.slot.slot for boot in self.boots(cell_id)}
        return tuple(slot.slot for slot in self.due.get(cell_id, ()) if slot.slot not in there)

    def boot_ids(self, slot: int) -> tuple[str, ...]:
        """The boots of a slot that count for any cell, sorted."""
        found = {b.boot_id for boots in self.cells.values() for b in boots if b.slot.slot == slot}
        return tuple(sorted(found))

    def attempts(self, *slots: int) -> frozenset[int]:
        """The attempts in which boots of these slots were started that count for any cell."""
        ids = [boot_id for slot in slots for boot_id in self.boot_ids(slot)]
        return frozenset(int(boot_id.rsplit(".", 1)[1]) for boot_id in ids)


def select(records: RunRecords) -> Selection:
    """Pick the records that count for every planned cell and slot."""
    planned = {slot.slot: slot for slot in slots(records.plan)}
    due = {
        cell.cell_id: slots_of(records.plan, cell)
        for cell in records.plan.cells
        if not isinstance(cell, SkippedCell)
    }
    first = _first_finished(records, due)
    requests: dict[_Key, list[RequestRecord]] = defaultdict(list)
    for request in records.requests:
        requests[request.boot_id, request.cell_id].append(request)
    coverage = _brackets(records.coverage)
    counters = _brackets(records.counters)
    graphs = _brackets(event for event in records.graphs if event.event == "table")
    telemetry = _telemetry(records)
    kernels: dict[_Key, list[KernelLine]] = defaultdict(list)
    for line in records.kernels:
        kernels[line.boot_id, line.cell_id].append(line)
    cells: dict[str, list[CellBoot]] = defaultdict(list)
    for number, cell_id in sorted(first):
        event = first[number, cell_id]
        boot_id = event.boot_id
        key = (boot_id, cell_id)
        boot = CellBoot(
            slot=planned[number],
            boot_id=boot_id,
            requests=tuple(sorted(requests.get(key, ()), key=_request_order)),
            coverage=coverage.get(key, _NO_COVERAGE),
            counters=counters.get(key, _NO_COUNTERS),
            finished=event,
            graphs=graphs.get(key, _NO_GRAPHS),
            profiles=_profiles(records, boot_id),
            samples=tuple(sorted(telemetry.samples.get(key, ()), key=lambda s: s.at_ns)),
            telemetry_missing=telemetry.missing.get(key),
            gpu_indices=telemetry.gpus.get(boot_id, frozenset()),
            kernels=tuple(kernels.get(key, ())),
        )
        cells[cell_id].append(boot)
    return Selection(
        slots=tuple(planned.values()),
        due=due,
        cells={cell_id: tuple(boots) for cell_id, boots in cells.items()},
        abort_reasons={
            (e.slot, e.cell_id): e.reason for e in records.cells if e.event == "aborted"
        },
    )


def _first_finished(
    records: RunRecords, due: Mapping[str, tuple[BootSlot, ...]]
) -> dict[tuple[int, str], CellFinished]:
    arms = {event.boot_id: event.arm for event in records.boots if event.event == "started"}
    planned = {(slot.slot, cell_id): slot for cell_id, due_in in due.items() for slot in due_in}
    first: dict[tuple[int, str], CellFinished] = {}
    for event in records.cells:
        if event.event != "finished":
            continue
        slot = planned.get((event.slot, event.cell_id))
        # A boot that names another slot or was started as the other arm must not stand in here:
        # one boot could then be compared with itself.
        if slot is None or _slot_of(event.boot_id) != event.slot:
            continue
        if arms.get(event.boot_id) == slot.arm:
            first.setdefault((event.slot, event.cell_id), event)
    return first


@dataclass(frozen=True)
class _Telemetry:
    samples: Mapping[_Key, list[TelemetrySample]]
    missing: Mapping[_Key, str]
    gpus: Mapping[str, frozenset[int]]


def _telemetry(records: RunRecords) -> _Telemetry:
    samples: dict[_Key, list[TelemetrySample]] = defaultdict(list)
    missing: dict[_Key, str] = {}
    gpus: dict[str, frozenset[int]] = {}
    for line in records.telemetry:
        if line.kind == "sample":
            samples[line.boot_id, line.cell_id].append(line)
        elif line.kind == "unavailable":
            missing[line.boot_id, line.cell_id] = line.reason
        else:
            gpus[line.boot_id] = frozenset(gpu.index for gpu in line.gpus)
    return _Telemetry(samples, missing, gpus)


def _profiles(records: RunRecords, boot_id: str) -> tuple[KernelProfile, ...]:
    return tuple(
        event for event in records.graphs if event.event == "profile" and event.boot_id == boot_id
    )


def _slot_of(boot_id: str) -> int:
    return int(boot_id.removeprefix("boot-").split(".")[0])


def _brackets(snapshots: Iterable[S]) -> dict[_Key, Bracket[S]]:
    moments: dict[_Key, dict[str, S]] = defaultdict(dict)
    for snapshot in snapshots:
        moments[snapshot.boot_id, snapshot.cell_id][snapshot.moment] = snapshot
    return {key: Bracket(m.get("before"), m.get("after")) for key, m in moments.items()}


def _request_order(request: RequestRecord) -> tuple[int, str, int, int]:
    return request.index, request.variant, request.sent_at_ns, request.ended_at_ns
