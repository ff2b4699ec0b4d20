"""The load client of a healthy cell."""

from typing import Any, Final

from k3bundle.client import ClientProcess, ClientStats, ClockAnchor, WarmUp

_AT: Final = "2026-01-02T03:04:05Z"
_MS: Final = 1_000_000


def a_client(**changes: Any) -> ClientStats:
    """A client of one process that kept up; keyword arguments change that process."""
    values: dict[str, Any] = {
        "requests": 4,
        "received_bytes": 9_000,
        "received_pieces": 40,
        "wall_ns": 240 * _MS,
        "cpu_ns": 24 * _MS,
        "lag_samples": 48,
        "lag_ms_p50": 0.2,
        "lag_ms_p99": 0.5,
        "lag_ms_max": 0.7,
    }
    return ClientStats(
        started=ClockAnchor(monotonic_ns=5 * _MS, utc=_AT, machine_boot_sha256="ef" * 32),
        processes=(ClientProcess(**{**values, **changes}),),
        recording_cpu_ns=2 * _MS,
        warmup=WarmUp(rounds_ms=(), steady=None),
    )
