"""How far an engine was kept from the referee that measured it, one record for each boot."""

from typing import Literal

from pydantic import Field

from k3bundle.record import Count, Record, ShortText
from k3bundle.run import BootId

__all__ = ["Alteration", "SeparationRecord"]


class Alteration(Record):
    """A protected file that changed while the engine ran."""

    path: ShortText
    """The file, with folders of this machine as placeholders."""
    kind: Literal["added", "removed", "content", "touched", "records_rewritten"]
    """`content`: its bytes differ. `touched`: the same bytes were written again, or its owner or
    permissions changed. `records_rewritten`: bytes that the referee had appended are others now."""


class SeparationRecord(Record):
    """One boot: as whom the engine ran, and what of the referee's was altered meanwhile."""

    boot_id: BootId
    """The boot."""
    engine_user: Literal["other", "same"]
    """Whether the engine ran under another user id than the referee."""
    why_same: ShortText | None
    """Why it did not, in a sentence; null when it did."""
    protected_files: Count
    """Files whose state was compared before and after: the environments of referee and engine,
    the model, what decides the clock and the loading of programs, and the records of the run."""
    alterations: tuple[Alteration, ...] = Field(max_length=200)
    """What changed; any entry means that the boot cannot be trusted."""
    alterations_left_out: Count
    """How many more there were."""
    wall_clock_shift_ms: float
    """How far the wall clock moved against the monotonic clock while the engine ran, in
    milliseconds."""
