"""A recorded trace of requests: one JSON object per line. Pure; the caller reads the file.

    {"timestamp": 1300, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}

`timestamp` is in milliseconds and counts from the first line, whatever it starts with. `hash_ids`
name the blocks of 512 tokens that the prompt begins with; prompts whose leading ids are equal share
those blocks. They may be left out. This is the form in which serving traces are published.
"""

import json
from typing import Any

from k3bundle.traffic import TraceEntry
from k3runner.errors import UsageError

__all__ = ["parse_trace"]

_HINT = (
    "Write one JSON object per line with `timestamp` in milliseconds, ascending, `input_length`, "
    "`output_length` and, where prompts share prefixes, `hash_ids`."
)
_KEYS = frozenset({"timestamp", "input_length", "output_length", "hash_ids"})
_NS_PER_MS = 1_000_000


def parse_trace(content: bytes, name: str, *, speed: float = 1.0) -> tuple[TraceEntry, ...]:
    """Reads the requests of a trace.

    Args:
        content: The whole file.
        name: Its name, for messages.
        speed: How many times faster than recorded it is replayed.

    Raises:
        UsageError: A line is no request, goes back in time, or there is none.
    """
    entries: list[TraceEntry] = []
    first_ms: float | None = None
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            at_ms = _milliseconds(found)
            first_ms = at_ms if first_ms is None else first_ms
            entry = _entry(found, round((at_ms - first_ms) / speed * _NS_PER_MS))
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{name} line {number} is no request: {error}.", _HINT) from error
        if entries and entry.at_ns < entries[-1].at_ns:
            raise UsageError(f"{name} line {number} is earlier than the line before it.", _HINT)
        entries.append(entry)
    if not entries:
        raise UsageError(f"{name} holds no request.", _HINT)
    return tuple(entries)


def _milliseconds(found: Any) -> float:
    unknown = set(found) - _KEYS
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    at_ms = found["timestamp"]
    if type(at_ms) not in (int, float):
        raise ValueError("`timestamp` is not a number")
    return float(at_ms)


def _entry(found: Any, at_ns: int) -> TraceEntry:
    return TraceEntry(
        at_ns=at_ns,
        prompt_tokens=found["input_length"],
        output_tokens=found["output_length"],
        prefix_ids=tuple(found.get("hash_ids", ())),
    )
