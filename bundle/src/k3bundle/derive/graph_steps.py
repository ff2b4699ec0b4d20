"""Which path served the steps of an engine that replays graphs.

    dispatched     = graph table after - before, by (tokens, padded tokens, mode)
    size is served = the graph of that padded size holds a kernel for every pattern of the path
    decode steps   = dispatched steps of at most requests x (1 + drafts) tokens
    expected steps = decode steps whose graph is FULL and of a size that is served

An engine's own word for its backend proves nothing, and neither does a count of captures: replayed
graphs run no Python. A size that no profile shows counts as stock. A short prompt that is prefilled
within the bound counts as a decode step of stock, so the share can only come out too low.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from k3bundle.coverage import StepCount
from k3bundle.derive.sentences import quote
from k3bundle.graph_record import GraphRow, GraphTable, KernelProfile
from k3bundle.record import MAX_SAFE_INTEGER

__all__ = ["STOCK_PATH", "GraphReading", "graph_steps"]

STOCK_PATH: Final = "stock"
"""Path of every step that the expected path is not shown to serve."""
_Dispatched = Counter[tuple[int, int, str]]


@dataclass(frozen=True)
class GraphReading:
    """Steps of one cell in one boot by path, as a package's own counters would give them."""

    steps: tuple[StepCount, ...]
    """Steps by kind, path and reason; empty when `problem` is set."""
    problem: str | None
    """Why the tables cannot be read, in a sentence; None when they can."""


def graph_steps(
    before: GraphTable,
    after: GraphTable,
    profiles: Iterable[KernelProfile],
    *,
    expected_path: str,
    kernel_patterns: tuple[str, ...],
    requests: int,
    draft_tokens: int,
) -> GraphReading:
    """Derive the steps of a cell from recorded tables and profiles.

    Args:
        before: Table before the cell.
        after: Table after the cell, of the same boot.
        profiles: Kernels by size, of the same boot.
        expected_path: Path that the arm is to be served by.
        kernel_patterns: Globs of kernel names; the path's graph holds a kernel for each of them.
        requests: Most requests in flight in the cell.
        draft_tokens: Draft tokens of each request; 0 without speculation.

    Returns:
        The reading. Never raises, whatever the counts.
    """
    dispatched = _dispatched(after)
    dispatched.subtract(_dispatched(before))
    if any(count < 0 for count in dispatched.values()):
        return GraphReading((), "a count of dispatched graphs went backwards during the cell")
    if before.capture_sizes and before.capture_sizes != after.capture_sizes:
        return GraphReading((), "the captured sizes changed during the cell")
    steps = sum(dispatched.values())
    if not steps:
        return GraphReading((), "the engine's graph table shows no step during the cell")
    if steps > MAX_SAFE_INTEGER:
        return GraphReading((), "the counts of dispatched graphs are beyond 2^53")
    if not kernel_patterns:
        return GraphReading((), "the subject names no kernel of the path")
    served = _served_sizes(after, profiles, kernel_patterns)
    largest = requests * (1 + draft_tokens)
    kind = "verify" if draft_tokens else "decode"
    counts: Counter[tuple[str, str, str | None]] = Counter()
    for (unpadded, padded, mode), count in dispatched.items():
        if not count:
            continue
        if unpadded > largest:
            counts["mixed", STOCK_PATH, None] += count
            continue
        reason = _why_stock(padded, mode, served)
        counts[kind, expected_path if reason is None else STOCK_PATH, reason] += count
    return GraphReading(
        tuple(_step(key, count) for key, count in sorted(counts.items(), key=str)), None
    )


def _step(key: tuple[str, str, str | None], count: int) -> StepCount:
    kind, path, reason = key
    return StepCount.model_validate(
        {"kind": kind, "path": path[:80], "reason": reason, "count": count}
    )


def _dispatched(table: GraphTable) -> _Dispatched:
    counts: _Dispatched = Counter()
    for row in table.rows:
        counts[_key(row)] += row.count
    return counts


def _key(row: GraphRow) -> tuple[int, int, str]:
    return row.unpadded_tokens, row.padded_tokens, row.mode


def _served_sizes(
    table: GraphTable, profiles: Iterable[KernelProfile], patterns: tuple[str, ...]
) -> dict[int, str | None]:
    """Padded size -> why its graph is not the path's; None when it is."""
    found: dict[int, str | None] = {}
    pads = {row.unpadded_tokens: row.padded_tokens for row in table.rows if row.mode == "FULL"}
    for profile in profiles:
        tokens = profile.unpadded_tokens
        size = pads.get(tokens) or _next_size(tokens, table.capture_sizes)
        if size is None:
            continue
        why = _why_not_the_path(profile, patterns)
        # Two profiles of one size must both show the path.
        if why is not None or size not in found:
            found[size] = why
    return found


def _next_size(tokens: int, sizes: tuple[int, ...]) -> int | None:
    return min((size for size in sizes if size >= tokens), default=None)


def _why_not_the_path(profile: KernelProfile, patterns: tuple[str, ...]) -> str | None:
    if profile.graph_steps < profile.steps:
        eager = profile.steps - profile.graph_steps
        return f"{eager} of {profile.steps} profiled steps ran without a graph"
    missing = [
        pattern
        for pattern in patterns
        if not any(fnmatchcase(kernel, pattern) for kernel in profile.kernels)
    ]
    return f"its graph holds no kernel {quote(missing[0])}" if missing else None


def _why_stock(padded: int, mode: str, served: dict[int, str | None]) -> str | None:
    """Why a dispatched step is not the path's; None when it is."""
    if mode == "NONE":
        return "no graph ran"
    if mode != "FULL":
        return "only parts of the step ran as graphs"
    if padded not in served:
        return f"no profile shows the graph of {padded} tokens"
    why = served[padded]
    return None if why is None else f"graph of {padded} tokens: {why}"
