"""Which path served each step, and the engine's own counters around a cell."""

from typing import Literal

from pydantic import Field

from k3bundle.record import CellId, Count, Record, ShortText
from k3bundle.run import BootId

__all__ = ["CoverageSnapshot", "EngineCounters", "StepCount"]


class StepCount(Record):
    """Steps of one kind that one path served, since the engine started."""

    kind: Literal["decode", "verify", "prefill", "mixed"]
    """What the step held: one token per request, drafts to verify, prompts, or both."""
    path: str = Field(max_length=80)
    """Path that served it, for example `stock` or `candidate`."""
    reason: ShortText | None
    """Named reason when the asked-for path stepped aside; None when it served."""
    count: Count
    """Number of steps."""


class CoverageSnapshot(Record):
    """Step counts at one moment; a cell's coverage is the difference of two snapshots."""

    boot_id: BootId
    """Boot they were read from."""
    cell_id: CellId
    """Cell they bracket."""
    moment: Literal["before", "after"]
    """Before the first or after the last request of the cell."""
    source: Literal["host", "device", "unavailable"]
    """Where counts are kept: `host` counts calls in Python, `device` counts inside graphs."""
    configured_backend: str | None
    """Backend the engine says it was started with; None when unavailable."""
    counts: tuple[StepCount, ...]
    """Cumulative counts; empty when unavailable."""


class EngineCounters(Record):
    """Counters of the engine's metrics endpoint at one moment of a cell."""

    boot_id: BootId
    """Boot they were read from."""
    cell_id: CellId
    """Cell they bracket."""
    moment: Literal["before", "after"]
    """Before the first measured or after the last request."""
    counters: dict[str, float]
    """Metric name -> value, summed over labels; empty when the server offers none."""
