"""Takes samples in a thread of its own, and gives those of one cell as records."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Final

from k3bundle.telemetry import (
    GpuSample,
    HostSample,
    TelemetryLine,
    TelemetrySample,
    TelemetrySource,
    TelemetryUnavailable,
)
from k3runner.telemetry.host import HostReader
from k3runner.telemetry.nvml import GpuReader, NvmlAbsent

__all__ = ["TELEMETRY_INTERVAL_MS", "BootTelemetry", "Stamp"]

TELEMETRY_INTERVAL_MS: Final = 500
"""Two samples a second: throttling shows, and a sample costs about a millisecond."""
_STOP_S: Final = 5.0


@dataclass(frozen=True)
class Stamp:
    """One moment on two clocks."""

    utc: str
    """RFC 3339 in UTC: a label."""
    monotonic_ns: int
    """The clock that durations are taken from."""


@dataclass(frozen=True)
class _Taken:
    at: Stamp
    gpus: tuple[GpuSample, ...]
    host: HostSample


def read_clocks() -> Stamp:
    """This moment on both clocks."""
    monotonic_ns = time.monotonic_ns()
    return Stamp(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), monotonic_ns)


class BootTelemetry:
    """Samples while one boot runs. Use as a context manager."""

    def __init__(
        self,
        boot_id: str,
        gpus: GpuReader | NvmlAbsent,
        host: HostReader,
        *,
        salt: str,
        interval_ms: int = TELEMETRY_INTERVAL_MS,
        clocks: Callable[[], Stamp] = read_clocks,
    ) -> None:
        """Prepares sampling; nothing is read before the context is entered.

        Args:
            boot_id: The boot.
            gpus: The accelerators, or why there are none. Not closed here.
            host: The host.
            salt: The run's nonce.
            interval_ms: Planned time between samples.
            clocks: Both clocks; tests own them.
        """
        self._boot_id = boot_id
        self._gpus = gpus
        self._host = host
        self._salt = salt
        self._interval_ms = interval_ms
        self._clocks = clocks
        self._taken: list[_Taken] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def __enter__(self) -> "BootTelemetry":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(_STOP_S)

    def source(self) -> TelemetrySource:
        """What is sampled; the first line of a boot."""
        reader = self._gpus if isinstance(self._gpus, GpuReader) else None
        return TelemetrySource(
            boot_id=self._boot_id,
            interval_ms=self._interval_ms,
            gpus=reader.identities(self._salt) if reader else (),
            driver_version=reader.driver_version if reader else None,
            host_unread=self._host.unread(),
        )

    def take(self) -> None:
        """Takes a sample now, beside those that come by themselves."""
        # Readers keep the reading before, so two threads must not read at once.
        with self._lock:
            at = self._clocks()
            gpus = self._gpus.sample() if isinstance(self._gpus, GpuReader) else ()
            self._taken.append(_Taken(at, gpus, self._host.sample()))

    def forget(self) -> None:
        """Drops the samples so far: a cell begins, and what was before belongs to none."""
        with self._lock:
            self._taken.clear()

    def cell_lines(self, cell_id: str, *, began_ns: int) -> tuple[TelemetryLine, ...]:
        """The records of a cell.

        Args:
            cell_id: The cell.
            began_ns: Zero of the clock of its requests, on the monotonic clock. Samples before it
                belong to the warm-up and are left out.

        Returns:
            Samples in order of time; first a line that says why there are no accelerators, where
            there are none.
        """
        with self._lock:
            taken = [one for one in self._taken if one.at.monotonic_ns >= began_ns]
        lines: list[TelemetryLine] = []
        reason = self._gpus.reason if isinstance(self._gpus, NvmlAbsent) else None
        if reason is None and not taken:
            reason = "No sample was taken while the cell ran."
        if reason is not None:
            lines.append(
                TelemetryUnavailable(boot_id=self._boot_id, cell_id=cell_id, reason=reason)
            )
        lines += [
            TelemetrySample(
                boot_id=self._boot_id,
                cell_id=cell_id,
                at_utc=one.at.utc,
                at_ns=one.at.monotonic_ns - began_ns,
                gpus=one.gpus,
                host=one.host,
            )
            for one in taken
        ]
        return tuple(lines)

    def _run(self) -> None:
        interval_s = self._interval_ms / 1e3
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self.take()
            # A late sample leaves a gap; the ones after it do not come faster to make up for it.
            due = max(due + interval_s, time.monotonic())
