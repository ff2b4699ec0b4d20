"""The numbers of one serving cell in one boot, from its raw records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from k3bundle.derive.client_gate import ClientReading
from k3bundle.derive.metrics.e2e import e2e_ms
from k3bundle.derive.metrics.first_answer import first_answer_ms
from k3bundle.derive.metrics.goodput import goodput_per_s
from k3bundle.derive.metrics.gpu_rate import tokens_per_s_per_gpu
from k3bundle.derive.metrics.itl import burst_share, itl_percentile_ms
from k3bundle.derive.metrics.percentile import percentile
from k3bundle.derive.metrics.text_share import text_share
from k3bundle.derive.metrics.throughput import output_tokens_per_s
from k3bundle.derive.metrics.tpot import tpot_ms
from k3bundle.derive.metrics.ttft import ttft_ms
from k3bundle.derive.metrics.user_rate import p90_interactivity, tokens_per_s_per_user
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import clip
from k3bundle.derive.speculation import SpeculationReading
from k3bundle.derive.telemetry_gate import TelemetryReading
from k3bundle.plan import ServingCell
from k3bundle.request import RequestRecord
from k3bundle.verdict import BootMeasurement

__all__ = ["Readings", "measure"]

_P50: Final = 0.5
_P90: Final = 0.9
_P99: Final = 0.99


@dataclass(frozen=True)
class Readings:
    """What was read beside the requests of one boot."""

    client: ClientReading
    """The load client."""
    telemetry: TelemetryReading
    """The accelerators."""
    speculation: SpeculationReading
    """The drafts."""
    gpu_count: int
    """Accelerators of the boot's deployment."""


def measure(
    boot: CellBoot,
    cell: ServingCell,
    measured: Sequence[RequestRecord],
    readings: Readings,
) -> BootMeasurement:
    """Measure one cell in one boot.

    Args:
        boot: The boot.
        cell: The planned cell.
        measured: Its requests without warm-up.
        readings: What was read beside them.
    """
    completed = [r for r in measured if r.outcome.status == "completed"]
    ttft, tpot = _known(ttft_ms, completed), _known(tpot_ms, completed)
    e2e, missing = _known(e2e_ms, completed), readings.telemetry.missing
    return BootMeasurement(
        slot=boot.slot.slot,
        arm=boot.slot.arm,
        pair=boot.slot.pair,
        role=boot.slot.role,
        completed=len(completed),
        failed=len(measured) - len(completed),
        ttft_ms_p50=percentile(ttft, _P50),
        ttft_ms_p99=percentile(ttft, _P99),
        first_answer_ms_p50=percentile(_known(first_answer_ms, completed), _P50),
        tpot_ms_p50=percentile(tpot, _P50),
        tpot_undefined=len(completed) - len(tpot),
        estimated_requests=readings.client.estimated_requests,
        itl_ms_p50=itl_percentile_ms(measured, _P50),
        itl_ms_p90=itl_percentile_ms(measured, _P90),
        itl_ms_p99=itl_percentile_ms(measured, _P99),
        burst_share=burst_share(measured),
        e2e_ms_p50=percentile(e2e, _P50),
        e2e_ms_p99=percentile(e2e, _P99),
        output_tokens_per_s=output_tokens_per_s(measured),
        tokens_per_s_per_user=tokens_per_s_per_user(measured),
        p90_interactivity_tokens_per_s=p90_interactivity(measured),
        tokens_per_s_per_gpu=tokens_per_s_per_gpu(measured, readings.gpu_count),
        goodput_per_s=None if cell.objective is None else goodput_per_s(measured, cell.objective),
        mean_acceptance_length=readings.speculation.mean_acceptance_length,
        text_share=text_share(measured),
        achieved_concurrency=readings.client.achieved_concurrency,
        client_lag_p99_ms=readings.client.lag_ms_p99,
        client_cpu_share=readings.client.cpu_share,
        telemetry_gap_ms=readings.telemetry.gap_ms,
        throttled_share=readings.telemetry.throttled_share,
        telemetry_missing=None if missing is None else clip(missing),
    )


def _known(
    measure_one: Callable[[RequestRecord], float | None], requests: Sequence[RequestRecord]
) -> list[float]:
    """The values of a metric where it is defined."""
    values = (measure_one(request) for request in requests)
    return [value for value in values if value is not None]
