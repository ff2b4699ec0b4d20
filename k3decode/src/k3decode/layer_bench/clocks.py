"""Clocks and throttle reasons while something runs, as the driver reports them."""

import statistics
import subprocess
from types import TracebackType

__all__ = ["ClockLog", "summary"]

_QUERY = "clocks.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active"
_PERIOD_MS = "200"


class ClockLog:
    """Asks every 0.2 seconds between `with` and its end."""

    def __enter__(self) -> "ClockLog":
        """Start asking."""
        command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
        self._process = subprocess.Popen(
            [*command, "-lms", _PERIOD_MS], stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and keep what was said."""
        self._process.terminate()
        self.lines = (self._process.communicate()[0] or "").splitlines()

    def facts(self) -> dict[str, object]:
        """Summary of what was said; call it after the end."""
        return summary(self.lines)


def summary(lines: list[str]) -> dict[str, object]:
    """Lowest, middle and highest values of lines `SM clock, memory clock, power, heat, reasons`.

    Lines that hold anything else are left out and counted.
    """
    rows = []
    for line in lines:
        parts = [part.strip() for part in line.split(",")]
        try:
            rows.append((float(parts[0]), float(parts[1]), float(parts[2]), parts[4]))
        except (ValueError, IndexError):
            continue
    unread = len(lines) - len(rows)
    if not rows:
        return {"samples": 0, "unread_lines": unread}
    sm, memory, power, reasons = zip(*rows, strict=True)
    return {
        "samples": len(rows),
        "unread_lines": unread,
        "sm_clock_mhz": [min(sm), statistics.median(sm), max(sm)],
        "memory_clock_mhz": [min(memory), statistics.median(memory), max(memory)],
        "power_w": [min(power), statistics.median(power), max(power)],
        "event_reasons": sorted(set(reasons)),
    }
