"""What telemetry says about the conditions of a serving cell, and whether they spoil its numbers.

    window    = first measured request sent to last one ended, on the cell's clock
    gap       = longest stretch of the window without a sample, its ends included
    throttled = samples in which some accelerator was slowed down / samples, of the window and the
                one on either side of it

An accelerator is slowed down when NVML names a cap of power, heat or hardware; idling and clocks
that its owner fixed are none. Throttling leaves the numbers as they are and the cell unjudged: they
are true, and of another machine than the one that is claimed.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from k3bundle.derive.problem import Problem
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import percent, quote
from k3bundle.gates import Gates
from k3bundle.request import RequestRecord
from k3bundle.telemetry import TelemetrySample

__all__ = ["SLOWED", "TelemetryReading", "read_telemetry", "read_window", "telemetry_problem"]

SLOWED: Final = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
"""NVML's bits for software power cap, hardware slowdown, software and hardware thermal slowdown,
and power brake."""
_NS_PER_MS: Final = 1_000_000
_NO_LINE: Final = "nothing was recorded"
_NO_GPU: Final = "no sample holds an accelerator"


@dataclass(frozen=True)
class TelemetryReading:
    """Telemetry of one cell in one boot."""

    gap_ms: float | None
    """Longest stretch without a sample; None without telemetry."""
    throttled_share: float | None
    """Share of samples with a slowed accelerator; None where no sample says it."""
    missing: str | None
    """Why nothing is known of the accelerators, without full stop; None when it is."""
    incomplete: str | None = None
    """Which sample lacks an accelerator, without full stop; None when none does."""
    memory_errors: int = 0
    """Uncorrected memory errors during the cell."""


def read_telemetry(boot: CellBoot, measured: Sequence[RequestRecord]) -> TelemetryReading:
    """Read the telemetry of one cell in one boot.

    Args:
        boot: The boot with its samples, by time.
        measured: The measured requests of that boot.
    """
    begin = min((request.sent_at_ns for request in measured), default=0)
    end = max((request.sent_at_ns + request.ended_at_ns for request in measured), default=begin)
    return read_window(boot, begin, end)


def read_window(boot: CellBoot, begin: int, end: int) -> TelemetryReading:
    """Read the telemetry of a stretch of a cell.

    Args:
        boot: The boot with its samples, by time.
        begin: Start of the stretch in nanoseconds, on the cell's clock.
        end: Its end.
    """
    samples = [sample for sample in boot.samples if sample.gpus]
    if not samples:
        said = _NO_GPU if boot.samples else _NO_LINE
        return TelemetryReading(None, None, boot.telemetry_missing or said)
    inside = [sample for sample in samples if begin <= sample.at_ns <= end]
    stamps = [begin, *(sample.at_ns for sample in inside), end]
    gap = max(later - earlier for earlier, later in itertools.pairwise(stamps))
    before = [sample for sample in samples if sample.at_ns < begin][-1:]
    after = [sample for sample in samples if sample.at_ns > end][:1]
    told = [s for s in map(_slowed, (*before, *inside, *after)) if s is not None]
    return TelemetryReading(
        gap_ms=gap / _NS_PER_MS,
        throttled_share=sum(told) / len(told) if told else None,
        missing=None,
        incomplete=_incomplete(samples, boot.gpu_indices),
        memory_errors=_memory_errors(samples),
    )


def _slowed(sample: TelemetrySample) -> bool | None:
    """Whether some accelerator was slowed down; None when none says."""
    masks = [g.clock_event_reasons for g in sample.gpus if g.clock_event_reasons is not None]
    return any(mask & SLOWED for mask in masks) if masks else None


def _incomplete(samples: Sequence[TelemetrySample], expected: frozenset[int]) -> str | None:
    wanted = expected or frozenset(gpu.index for sample in samples for gpu in sample.gpus)
    for sample in samples:
        found = {gpu.index for gpu in sample.gpus}
        if found != wanted or len(sample.gpus) != len(wanted):
            at = sample.at_ns / _NS_PER_MS
            return f"the sample at {at:.0f} ms holds {len(found)} of {len(wanted)} accelerators"
    return None


def _memory_errors(samples: Sequence[TelemetrySample]) -> int:
    """Growth of the counters of uncorrected errors, over all accelerators."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for gpu in (gpu for sample in samples for gpu in sample.gpus):
        if gpu.ecc_uncorrected is not None:
            first.setdefault(gpu.index, gpu.ecc_uncorrected)
            last[gpu.index] = gpu.ecc_uncorrected
    return sum(max(0, last[index] - first[index]) for index in first)


def telemetry_problem(
    boots: Sequence[CellBoot], readings: Sequence[TelemetryReading], gates: Gates
) -> Problem | None:
    """Say under which conditions a cell cannot be judged.

    Args:
        boots: The boots that finished the cell.
        readings: One for each of them.
        gates: Thresholds; those that are None are not judged.

    Returns:
        The first problem; None when there is none.
    """
    for boot, reading in zip(boots, readings, strict=True):
        problem = _boot_problem(reading, gates, f"boot {boot.slot.slot} ({boot.slot.arm})")
        if problem is not None:
            return problem
    return None


def _boot_problem(reading: TelemetryReading, gates: Gates, where: str) -> Problem | None:
    if reading.memory_errors:
        reason = f"{reading.memory_errors} uncorrected memory errors were counted in {where}."
        return Problem("memory_error", reason)
    if reading.missing is not None:
        reason = f"There is no telemetry of the accelerators in {where}: {quote(reading.missing)}."
        return Problem("no_telemetry", reason) if gates.require_telemetry else None
    longest = gates.maximum_telemetry_gap_ms
    if longest is not None and reading.incomplete is not None:
        return Problem("telemetry_gap", f"Telemetry of {where} is not whole: {reading.incomplete}.")
    if longest is not None and reading.gap_ms is not None and reading.gap_ms > longest:
        reason = (
            f"Telemetry of {where} has a gap of {reading.gap_ms:.0f} ms while requests ran; at "
            f"most {longest:g} ms are allowed."
        )
        return Problem("telemetry_gap", reason)
    return _throttled(reading, gates, where)


def _throttled(reading: TelemetryReading, gates: Gates, where: str) -> Problem | None:
    most = gates.maximum_throttled_share
    if most is None:
        return None
    if reading.throttled_share is None:
        reason = f"The accelerators of {where} do not say whether they were slowed down."
        return Problem("no_telemetry", reason) if gates.require_telemetry else None
    if reading.throttled_share <= most:
        return None
    return Problem(
        "throttled",
        f"An accelerator was slowed down in {percent(reading.throttled_share)} of the samples of "
        f"{where}; at most {percent(most)} are allowed. The numbers stay as measured.",
    )
