"""The identity of a run, and the journal records of its attempts and boots."""

from typing import Annotated, Literal

from pydantic import Field

from k3bundle.client import ClientStats
from k3bundle.record import (
    CellId,
    Count,
    Milliseconds,
    Nanoseconds,
    Record,
    Sha256,
    ShortText,
    UtcTimestamp,
)
from k3bundle.subject import ArmName

__all__ = [
    "AttemptRecord",
    "BootEvent",
    "BootId",
    "BootReady",
    "BootStarted",
    "BootStopped",
    "CellAborted",
    "CellEvent",
    "CellFinished",
    "RunIdentity",
]

BootId = Annotated[str, Field(pattern=r"^boot-\d{1,4}\.\d{1,4}$")]
"""`boot-SLOT.ATTEMPT`: which slot, and in which attempt of the run it was started."""


class RunIdentity(Record):
    """Names one run of one plan. Written before the first boot, never changed."""

    run_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    """Random identity of the run."""
    nonce: Sha256
    """Seeds prompts and samples; from the registry where one issued it, else random."""
    nonce_source: Literal["registry", "local"]
    """Who chose the nonce."""
    plan_sha256: Sha256
    """Digest of the canonical JSON of the plan."""
    created_at_utc: UtcTimestamp
    """When the run was created."""


class AttemptRecord(Record):
    """One start of the runner on this run; the second and later ones are resumptions."""

    attempt: Count
    """Number of the attempt, from 0."""
    started_at_utc: UtcTimestamp
    """When it began."""
    resumed: bool
    """True for every attempt after the first."""
    torn_lines_dropped: Count
    """Half-written journal lines found and dropped at the start of this attempt."""
    subject_sha256: Sha256 | None = None
    """Digest of the canonical JSON of the subject's facts as this attempt read them: engine, image,
    model and change. None: not read again, and then no claim of speed rests on a resumed run."""


class BootStarted(Record):
    """The engine process was started."""

    event: Literal["started"] = "started"
    """Tag."""
    boot_id: BootId
    """Identity of the boot."""
    slot: Count
    """Slot of the plan."""
    arm: ArmName
    """Arm that was started."""
    attempt: Count
    """Attempt in which it was started."""
    at_utc: UtcTimestamp
    """When."""
    command: tuple[str, ...]
    """Command line, with paths replaced by placeholders."""


class BootReady(Record):
    """The engine answered its health check and its configuration was read back."""

    event: Literal["ready"] = "ready"
    """Tag."""
    boot_id: BootId
    """Identity of the boot."""
    ready_after_ms: Milliseconds
    """Time from start to healthy."""
    engine_version: str = Field(max_length=80)
    """Version the running server reports."""
    effective_config: dict[str, str]
    """Effective engine configuration as the server reports it, flattened: dotted key -> value.
    Empty when the server offers no way to read it."""


class BootStopped(Record):
    """The engine process ended."""

    event: Literal["stopped"] = "stopped"
    """Tag."""
    boot_id: BootId
    """Identity of the boot."""
    how: Literal["clean", "killed", "crashed", "never_ready"]
    """How it ended."""
    detail: ShortText
    """One sentence, for example the last line of the log of a crash."""


BootEvent = Annotated[BootStarted | BootReady | BootStopped, Field(discriminator="event")]
"""One line of `boots.jsonl`."""


class CellFinished(Record):
    """All requests of a cell in one boot ended and were written before this line."""

    event: Literal["finished"] = "finished"
    """Tag."""
    boot_id: BootId
    """Boot that served the cell."""
    slot: Count
    """Slot of that boot."""
    cell_id: CellId
    """The cell."""
    at_utc: UtcTimestamp
    """When."""
    wall_ns: Nanoseconds
    """Time from the first request sent to the last one ended, warm-up excluded."""
    request_count: Count
    """Request records written for this cell and boot, warm-up included."""
    client: ClientStats | None = None
    """What the load client saw of itself; None for a cell that sends no requests."""


class CellAborted(Record):
    """A cell that could not be finished in a boot."""

    event: Literal["aborted"] = "aborted"
    """Tag."""
    boot_id: BootId
    """Boot that should have served it."""
    slot: Count
    """Slot of that boot."""
    cell_id: CellId
    """The cell."""
    at_utc: UtcTimestamp
    """When."""
    cause: Literal["hang", "engine_ended", "silent", "not_started"]
    """`hang`: no stream made progress for the idle limit, and the stacks that could be had are in a
    log. `engine_ended`: the engine died. `silent`: it does not answer administrative requests.
    `not_started`: the boot ended before."""
    reason: ShortText
    """Why, in one sentence."""


CellEvent = Annotated[CellFinished | CellAborted, Field(discriminator="event")]
"""One line of `cells.jsonl`."""
