"""Counters from Prometheus text. Pure."""

import math
import re

__all__ = ["parse_counters"]

_SAMPLE = re.compile(r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{.*\})?\s+(\S+)(?:\s+\d+)?$")
_SUFFIXES = ("_total", "_count", "_sum")


def parse_counters(text: str, prefix: str) -> dict[str, float]:
    """Sums the counters of a metrics page over their labels.

    Args:
        text: The page, in Prometheus text format.
        prefix: Start of the names that count, for example `vllm:`.

    Returns:
        Name -> value, sorted by name; only counters, and counts and sums of histograms. A name
        with a value that is not finite is left out.
    """
    sums: dict[str, float] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None or not match[1].startswith(prefix) or not match[1].endswith(_SUFFIXES):
            continue
        try:
            value = float(match[2])
        except ValueError:
            continue
        sums[match[1]] = sums.get(match[1], 0.0) + value
    return {name: sums[name] for name in sorted(sums) if math.isfinite(sums[name])}
