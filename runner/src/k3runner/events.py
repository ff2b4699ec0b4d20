"""What happens during a run, as frozen values. Displays listen to these and know nothing else."""

from dataclasses import dataclass
from pathlib import Path

from k3bundle.plan import Plan
from k3bundle.subject import ArmName
from k3bundle.verdict import Verdict

__all__ = [
    "BootBecameReady",
    "BootEnded",
    "BootStarting",
    "BootWaiting",
    "BundleSealed",
    "CellEnded",
    "CellProgress",
    "CellStarted",
    "Event",
    "Remark",
    "RunFinished",
    "RunStarted",
]


@dataclass(frozen=True)
class RunStarted:
    """A run began or was resumed."""

    run_folder: Path
    plan: Plan
    plan_sha256: str
    resumed: bool


@dataclass(frozen=True)
class BootStarting:
    """An engine process is being started."""

    slot: int
    slot_count: int
    arm: ArmName
    decode_backend: str


@dataclass(frozen=True)
class BootWaiting:
    """The engine is not healthy yet."""

    slot: int
    waited_s: float
    last_log_line: str


@dataclass(frozen=True)
class BootBecameReady:
    """The engine is healthy."""

    slot: int
    ready_after_s: float


@dataclass(frozen=True)
class BootEnded:
    """The engine process ended."""

    slot: int
    how: str
    detail: str


@dataclass(frozen=True)
class CellStarted:
    """A cell began in a boot."""

    slot: int
    cell_id: str
    requests_planned: int


@dataclass(frozen=True)
class CellProgress:
    """Requests of a cell ended."""

    slot: int
    cell_id: str
    requests_done: int
    requests_failed: int


@dataclass(frozen=True)
class CellEnded:
    """A cell ended in a boot; `summary` is one short phrase, for example `ttft 41 ms`."""

    slot: int
    cell_id: str
    finished: bool
    summary: str


@dataclass(frozen=True)
class Remark:
    """Something a person should know, in a sentence."""

    text: str


@dataclass(frozen=True)
class RunFinished:
    """The verdict is derived."""

    verdict: Verdict


@dataclass(frozen=True)
class BundleSealed:
    """The bundle is on disk."""

    bundle_path: Path
    bundle_sha256: str


Event = (
    RunStarted
    | BootStarting
    | BootWaiting
    | BootBecameReady
    | BootEnded
    | CellStarted
    | CellProgress
    | CellEnded
    | Remark
    | RunFinished
    | BundleSealed
)
