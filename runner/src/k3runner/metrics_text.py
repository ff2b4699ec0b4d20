"""Counters from Prometheus text. Pure."""

import math
import re

__all__ = ["parse_counters"]

_SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{.*\})?\s+(\S+)(?:\s+\d+)?$")
_SUFFIXES = ("_total", "_count", "_sum")
_START_TIME = "process_start_time_seconds"
"""Not a counter: it tells a restart, after which counters begin again."""


def parse_counters(text: str, prefix: str) -> dict[str, float]:
    """Sums the counters of a metrics page over their labels.

    Args:
        text: The page, in Prometheus text format.
        prefix: Start of the names that count, for example `vllm:`.

    Returns:
        Name -> value, sorted by name; only counters, counts and sums of histograms, and the time
        at which the process started. A name with a value that is not finite is left out.
    """
    sums: dict[str, float] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None:
            continue
        counts = match[1].startswith(prefix) and match[1].endswith(_SUFFIXES)
        if not counts and match[1] != _START_TIME:
            continue
        try:
            value = float(match[2])
        except ValueError:
            continue
        sums[match[1]] = sums.get(match[1], 0.0) + value
    return {name: sums[name] for name in sorted(sums) if math.isfinite(sums[name])}
