"""The numbers of one serving cell in one boot, from its raw records."""

import statistics
from collections.abc import Sequence

from k3bundle.derive.metrics.concurrency import achieved_concurrency
from k3bundle.derive.metrics.throughput import output_tokens_per_s
from k3bundle.derive.metrics.tpot import tpot_ms
from k3bundle.derive.metrics.ttft import ttft_ms
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import clip
from k3bundle.derive.telemetry_gate import TelemetryReading
from k3bundle.plan import ServingCell
from k3bundle.request import RequestRecord
from k3bundle.verdict import BootMeasurement

__all__ = ["measure"]


def measure(
    boot: CellBoot,
    cell: ServingCell,
    measured: Sequence[RequestRecord],
    telemetry: TelemetryReading,
) -> BootMeasurement:
    """Measure one cell in one boot.

    Args:
        boot: The boot.
        cell: The planned cell.
        measured: Its requests without warm-up.
        telemetry: What was read from its telemetry.
    """
    completed = [r for r in measured if r.outcome.status == "completed"]
    ttft = [value for value in map(ttft_ms, completed) if value is not None]
    tpot = [value for value in map(tpot_ms, completed) if value is not None]
    missing = telemetry.missing
    return BootMeasurement(
        slot=boot.slot.slot,
        arm=boot.slot.arm,
        pair=boot.slot.pair,
        role=boot.slot.role,
        completed=len(completed),
        failed=len(measured) - len(completed),
        ttft_ms_p50=statistics.median(ttft) if ttft else None,
        tpot_ms_p50=statistics.median(tpot) if tpot else None,
        tpot_undefined=len(completed) - len(tpot),
        output_tokens_per_s=output_tokens_per_s(measured),
        achieved_concurrency=achieved_concurrency(measured, cell.concurrency),
        telemetry_gap_ms=telemetry.gap_ms,
        throttled_share=telemetry.throttled_share,
        telemetry_missing=None if missing is None else clip(missing),
    )
