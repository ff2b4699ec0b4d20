"""The load client of the example run: one process that had time left."""

from k3bundle.client import ClientProcess, ClientStats, ClockAnchor, WarmUp

__all__ = ["example_client"]


def example_client(requests: int) -> ClientStats:
    """What the client saw of itself in a cell of so many measured requests."""
    return ClientStats(
        started=ClockAnchor(
            monotonic_ns=3_600_000_000_000, utc="2026-01-02T03:00:05Z", machine_boot_sha256=None
        ),
        processes=(
            ClientProcess(
                requests=requests,
                received_bytes=2_400 * requests,
                received_pieces=10 * requests,
                wall_ns=400_000_000,
                cpu_ns=20_000_000,
                lag_samples=80,
                lag_ms_p50=0.2,
                lag_ms_p99=1.2,
                lag_ms_max=1.5,
            ),
        ),
        recording_cpu_ns=3_000_000,
        warmup=WarmUp(rounds_ms=(80.0,), steady=None),
    )
