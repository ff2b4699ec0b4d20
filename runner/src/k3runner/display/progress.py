"""The state of a run, folded from its events; what the live display draws. No terminal here."""

from dataclasses import dataclass, field
from typing import Literal

from k3bundle.plan import Plan
from k3bundle.verdict import Verdict
from k3runner.events import (
    BootBecameReady,
    BootEnded,
    BootStarting,
    BootWaiting,
    BundleSealed,
    CellEnded,
    CellProgress,
    CellStarted,
    Event,
    Remark,
    RunFinished,
    RunStarted,
)

__all__ = ["BootState", "CellState", "Progress"]

BootPhase = Literal["planned", "starting", "measuring", "ended", "broken"]
CellPhase = Literal["waiting", "going", "done", "broken"]


@dataclass
class CellState:
    """One cell in the boot that is shown."""

    cell_id: str
    phase: CellPhase = "waiting"
    requests_planned: int = 0
    requests_done: int = 0
    requests_failed: int = 0
    summary: str = ""


@dataclass
class BootState:
    """One boot of the plan."""

    slot: int
    arm: str
    backend: str
    cells: list[CellState]
    phase: BootPhase = "planned"
    started_at_s: float | None = None
    ended_at_s: float | None = None
    last_log_line: str = ""
    detail: str = ""

    @property
    def cells_done(self) -> int:
        """How many cells are finished."""
        return sum(cell.phase == "done" for cell in self.cells)

    def cell(self, cell_id: str) -> CellState:
        """The state of a cell; one that the plan does not know is added."""
        for cell in self.cells:
            if cell.cell_id == cell_id:
                return cell
        self.cells.append(CellState(cell_id))
        return self.cells[-1]


@dataclass
class Progress:
    """Everything a display needs to draw a run at one moment. Times are monotonic seconds."""

    started_at_s: float
    plan: Plan | None = None
    run_folder: str = ""
    resumed: bool = False
    boots: list[BootState] = field(default_factory=list)
    current: int | None = None
    remarks: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    bundle_path: str | None = None
    bundle_sha256: str | None = None

    def take(self, event: Event, now_s: float) -> None:
        """Fold one event into the state."""
        match event:
            case RunStarted():
                self._begin(event)
            case Remark():
                self.remarks.append(event.text)
            case RunFinished():
                self.verdict = event.verdict
            case BundleSealed():
                self.bundle_path, self.bundle_sha256 = str(event.bundle_path), event.bundle_sha256
            case CellStarted() | CellProgress() | CellEnded():
                self._take_cell(event)
            case _:
                self._take_boot(event, now_s)

    def _begin(self, event: RunStarted) -> None:
        self.plan, self.run_folder = event.plan, str(event.run_folder)
        self.resumed = event.resumed
        backends = {arm.name: arm.decode_backend for arm in event.plan.arms}
        names = [cell.cell_id for cell in event.plan.cells if cell.kind != "skipped"]
        self.boots = [
            BootState(boot.slot, boot.arm, backends[boot.arm], [CellState(name) for name in names])
            for boot in event.plan.boots
        ]

    def _take_boot(
        self, event: BootStarting | BootWaiting | BootBecameReady | BootEnded, now_s: float
    ) -> None:
        boot = self._boot(event.slot)
        if boot is None:
            return
        match event:
            case BootStarting():
                self.current = event.slot
                boot.phase, boot.started_at_s, boot.ended_at_s = "starting", now_s, None
            case BootWaiting():
                boot.last_log_line = event.last_log_line
            case BootBecameReady():
                boot.phase = "measuring"
            case BootEnded():
                boot.phase = "ended" if event.how == "clean" else "broken"
                boot.ended_at_s, boot.detail = now_s, event.detail

    def _take_cell(self, event: CellStarted | CellProgress | CellEnded) -> None:
        boot = self._boot(event.slot)
        if boot is None:
            return
        cell = boot.cell(event.cell_id)
        match event:
            case CellStarted():
                cell.phase, cell.requests_planned = "going", event.requests_planned
                cell.requests_done = cell.requests_failed = 0
            case CellProgress():
                cell.requests_done = event.requests_done
                cell.requests_failed = event.requests_failed
            case CellEnded():
                cell.phase = "done" if event.finished else "broken"
                cell.summary = event.summary

    def _boot(self, slot: int) -> BootState | None:
        return next((boot for boot in self.boots if boot.slot == slot), None)
