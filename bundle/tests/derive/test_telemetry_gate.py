"""Telemetry: gaps, missing accelerators, throttling and memory errors change a cell's status."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.telemetry import (
    GpuIdentity,
    GpuSample,
    HostSample,
    TelemetryLine,
    TelemetrySample,
    TelemetrySource,
    TelemetryUnavailable,
)
from k3bundle.verdict import BootMeasurement, CellInvalid, CellResult, CellSkipped, ServingEvidence

from .changes import change_requests, update
from .records import AT, GATES, MS, a_plan, a_run

LIMITS: dict[str, Any] = {
    "require_telemetry": True,
    "maximum_telemetry_gap_ms": 60.0,
    "maximum_throttled_share": 0.25,
}
HOST = HostSample(cpu_share=None, memory_available_bytes=None, memory_pressure_share=None)


def gpu(index: int, mask: int | None = 0, errors: int | None = 0) -> GpuSample:
    return GpuSample(
        index=index,
        sm_clock_mhz=1965.0,
        memory_clock_mhz=None,
        power_w=None,
        temperature_c=61.0,
        clock_event_reasons=mask,
        ecc_uncorrected=errors,
        memory_used_bytes=None,
    )


def sample(at_ms: float, *gpus: GpuSample, boot: str = "boot-1.0") -> TelemetrySample:
    return TelemetrySample(
        boot_id=boot, cell_id="serving", at_utc=AT, at_ns=round(at_ms * MS), gpus=gpus, host=HOST
    )


def source(boot: str, gpus: int) -> TelemetrySource:
    return TelemetrySource(
        boot_id=boot,
        interval_ms=50,
        gpus=tuple(
            GpuIdentity(index=i, gpu=f"{i:016x}", name="Example", unread=()) for i in range(gpus)
        ),
        driver_version="600.1",
        host_unread=(),
    )


def steady(boot: str) -> tuple[TelemetryLine, ...]:
    """Two accelerators every 50 ms; the requests of a boot take 240 ms."""
    stamps = (0, 50, 100, 150, 200, 250)
    return (source(boot, 2), *(sample(at, gpu(0), gpu(1), boot=boot) for at in stamps))


def run_with(lines: Iterable[TelemetryLine], **gates: Any) -> RunRecords:
    """A run with steady telemetry but for the first candidate boot, which has these lines."""
    records = a_run(a_plan(gates=GATES.model_copy(update={**LIMITS, **gates})))
    others = [line for slot in (0, 2, 3) for line in steady(f"boot-{slot}.0")]
    return replace(records, telemetry=(*others, *lines))


def serving(records: RunRecords) -> CellResult:
    return next(cell for cell in derive(records).cells if cell.cell_id == "serving")


def measured(records: RunRecords) -> BootMeasurement:
    cell = serving(records)
    assert not isinstance(cell, CellSkipped)
    assert isinstance(cell.evidence, ServingEvidence)
    return cell.evidence.boots[1]


def test_steady_telemetry_passes_and_is_in_the_evidence() -> None:
    records = run_with(steady("boot-1.0"))
    assert serving(records).status == "PASS"
    boot = measured(records)
    assert (boot.telemetry_gap_ms, boot.throttled_share, boot.telemetry_missing) == (
        50.0,
        0.0,
        None,
    )
    assert not any("no telemetry" in limit for limit in derive(records).limits)


GOOD = (gpu(0), gpu(1))
SLOW = (gpu(0), gpu(1, 0x4))


@pytest.mark.parametrize(
    ("lines", "cause", "words"),
    [
        # Seven of eight.
        (
            (
                source("boot-1.0", 2),
                *(sample(at, *GOOD) for at in (0, 50, 100)),
                sample(150, gpu(0)),
            ),
            "telemetry_gap",
            "the sample at 150 ms holds 1 of 2 accelerators",
        ),
        # A hole, twice the same stamp, and ends that no sample brackets.
        ((sample(0, *GOOD), sample(50, *GOOD), sample(250, *GOOD)), "telemetry_gap", "190 ms"),
        (tuple(sample(at, *GOOD) for at in (0, 50, 50, 50)), "telemetry_gap", "a gap of 190 ms"),
        (tuple(sample(at, *GOOD) for at in (100, 150, 200)), "telemetry_gap", "a gap of 100 ms"),
        (tuple(sample(at, *GOOD) for at in (500, 550)), "telemetry_gap", "a gap of 240 ms"),
        # Throttled in 40 %, and throughout: a status, and no number that is none.
        (
            tuple(
                sample(at, *(SLOW if at in (50, 150) else GOOD)) for at in (0, 50, 100, 150, 200)
            ),
            "throttled",
            "in 40 % of the samples of boot 1 (candidate)",
        ),
        (
            tuple(sample(at, *SLOW) for at in (0, 50, 100, 150, 200)),
            "throttled",
            "in 100 % of the samples",
        ),
        (
            tuple(sample(at, gpu(0, None), gpu(1, None)) for at in (0, 50, 100, 150, 200)),
            "no_telemetry",
            "do not say whether they were slowed down",
        ),
        (
            tuple(sample(at, gpu(0), gpu(1, errors=at // 50)) for at in (0, 50, 100, 150, 200)),
            "memory_error",
            "4 uncorrected memory errors",
        ),
        ((), "no_telemetry", "nothing was recorded"),
        ((sample(0), sample(50)), "no_telemetry", "no sample holds an accelerator"),
        (
            (TelemetryUnavailable(boot_id="boot-1.0", cell_id="serving", reason="No NVML here."),),
            "no_telemetry",
            "in boot 1 (candidate): No NVML here.",
        ),
    ],
)
def test_conditions_change_the_status_and_never_the_numbers(
    lines: tuple[TelemetryLine, ...], cause: str, words: str
) -> None:
    cell = serving(run_with(lines))
    assert isinstance(cell, CellInvalid)
    assert cell.cause == cause
    assert words in cell.reason
    assert measured(run_with(lines)).output_tokens_per_s == pytest.approx(32 / 0.24)


@pytest.mark.parametrize("mask", [0x1, 0x2, 0x10, 0x100])
def test_idling_and_fixed_clocks_are_no_throttling(mask: int) -> None:
    lines = tuple(sample(at, gpu(0, mask), gpu(1)) for at in (0, 50, 100, 150, 200))
    assert measured(run_with(lines)).throttled_share == 0.0


@pytest.mark.parametrize("mask", [0x4, 0x8, 0x20, 0x40, 0x80, 0x21])
def test_caps_of_power_heat_and_hardware_are_throttling(mask: int) -> None:
    lines = tuple(sample(at, gpu(0, mask), gpu(1)) for at in (0, 50, 100, 150, 200))
    assert measured(run_with(lines)).throttled_share == 1.0


def test_a_window_between_two_samples_is_told_by_them() -> None:
    slow = change_requests(
        run_with((sample(0, *GOOD), sample(900, *SLOW)), maximum_telemetry_gap_ms=1000.0),
        update(sent_at_ns=400 * MS),
        cell="serving",
        slots=[1],
    )
    assert measured(slow).throttled_share == 0.5
    assert measured(slow).telemetry_gap_ms == 60.0


def test_gates_that_are_open_are_reported_only() -> None:
    slow = tuple(sample(at, *SLOW) for at in (0, 200))
    records = run_with(slow, maximum_telemetry_gap_ms=None, maximum_throttled_share=None)
    assert serving(records).status == "PASS"
    boot = measured(records)
    assert (boot.telemetry_gap_ms, boot.throttled_share) == (200.0, 1.0)


def test_a_cell_without_telemetry_says_so_where_none_is_required() -> None:
    verdict = derive(run_with((), require_telemetry=False))
    assert serving(run_with((), require_telemetry=False)).status == "PASS"
    assert "Nothing is known of clocks and heat during serving: no telemetry." in verdict.limits
    assert measured(run_with((), require_telemetry=False)).telemetry_missing == (
        "nothing was recorded"
    )
