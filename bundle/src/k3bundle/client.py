"""What the load client saw of itself during a cell: its clock, its CPU time, its event loop.

A client that cannot keep up measures itself. These records let a verifier say so.
"""

from pydantic import Field

from k3bundle.record import Count, Milliseconds, Nanoseconds, Record, Sha256, UtcTimestamp

__all__ = ["ClientProcess", "ClientStats", "ClockAnchor", "WarmUp"]


class ClockAnchor(Record):
    """One moment on the clock that durations come from and on the one that labels come from."""

    monotonic_ns: Nanoseconds
    """The machine's monotonic clock, which every other stamp of the cell is relative to."""
    utc: UtcTimestamp
    """The wall clock at that moment; a label only."""
    machine_boot_sha256: Sha256 | None
    """Digest of the machine's boot id: monotonic stamps of two boots cannot be compared. None
    where the machine does not tell it."""


class ClientProcess(Record):
    """One process of the load client, over the measured part of a cell."""

    requests: Count
    """Requests it sent."""
    received_bytes: Count
    """Bytes of answers, with the framing of HTTP chunks."""
    received_pieces: Count
    """Reads in which they came: fewer than events where several came at once."""
    wall_ns: Nanoseconds
    """From the start of the measured part to its end."""
    cpu_ns: Nanoseconds
    """User and system time of the process in that span."""
    lag_samples: Count
    """How often the lag of the event loop was looked at."""
    lag_ms_p50: Milliseconds
    """Median lag: how much later than due a timer of the event loop fired."""
    lag_ms_p99: Milliseconds
    """99th percentile of the lag."""
    lag_ms_max: Milliseconds
    """Largest lag."""


class WarmUp(Record):
    """How the engine was brought into a steady state before the measured part."""

    rounds_ms: tuple[Milliseconds, ...]
    """Median end-to-end latency of each round of warm-up requests, in order; a round without an
    answer is left out."""
    steady: bool | None
    """Whether the last rounds agree; None when the plan asks for too few rounds to tell."""


class ClientStats(Record):
    """The load client during one cell in one boot."""

    started: ClockAnchor
    """Start of the cell: the moment that `sent_at_ns` of its requests counts from."""
    processes: tuple[ClientProcess, ...] = Field(min_length=1, max_length=1024)
    """Processes that sent and received."""
    recording_cpu_ns: Nanoseconds
    """CPU time spent on turning received bytes into records, outside of these processes."""
    warmup: WarmUp
    """The warm-up."""
