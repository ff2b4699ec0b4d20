"""How much of a serving cell's prompts came out of the prefix cache.

    hit rate = growth of the hits counter / growth of the queries counter

and, where the server reports cached prompt tokens per request, cached / all prompt tokens of the
completed requests. The larger of the two counts: a warm cache makes a cell look faster than it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from k3bundle.derive.selection import CellBoot
from k3bundle.plan import ServingCell
from k3bundle.request import Completed, RequestRecord
from k3bundle.traffic import TraceReplay

__all__ = ["HITS", "QUERIES", "PrefixCacheReading", "read_prefix_cache", "shared_share"]

HITS: Final = "vllm:prefix_cache_hits_total"
QUERIES: Final = "vllm:prefix_cache_queries_total"


@dataclass(frozen=True)
class PrefixCacheReading:
    """What one boot says about its prefix cache during a cell."""

    hit_rate: float | None
    """Share of prompt tokens found in the cache; None: not reported."""
    contradiction: str | None
    """Why the counters cannot be right; None when they can."""


def read_prefix_cache(boot: CellBoot, measured: Sequence[RequestRecord]) -> PrefixCacheReading:
    """Read the prefix cache of one cell in one boot.

    Args:
        boot: The boot with its counters before and after the cell.
        measured: The measured requests of that boot.
    """
    before = boot.counters.before.counters if boot.counters.before else {}
    after = boot.counters.after.counters if boot.counters.after else {}
    names = [name for name in (HITS, QUERIES) if name in before or name in after]
    for name in names:
        if name not in before or name not in after:
            when = "after" if name in before else "before"
            return PrefixCacheReading(None, f"the counter {name} is missing {when} the cell")
        if after[name] < before[name]:
            return PrefixCacheReading(None, f"the counter {name} went backwards during the cell")
    rates = [rate for rate in (_from_requests(measured),) if rate is not None]
    if len(names) == 2:  # noqa: PLR2004
        hits, queries = after[HITS] - before[HITS], after[QUERIES] - before[QUERIES]
        if hits > queries or not math.isfinite(queries):
            return PrefixCacheReading(None, "the prefix cache counts more hits than queries")
        rates.append(hits / queries if queries > 0 else 0.0)
    return PrefixCacheReading(max(rates, default=None), None)


def shared_share(cell: ServingCell) -> float:
    """Largest share of the prompt tokens that the cell's prompts share by plan."""
    if not isinstance(cell.traffic, TraceReplay):
        return min(1.0, cell.shared_prefix_tokens / cell.prompt_tokens)
    block = cell.traffic.prefix_block_tokens
    entries = cell.traffic.entries
    shared = sum(min(e.prompt_tokens, len(e.prefix_ids) * block) for e in entries)
    return shared / sum(entry.prompt_tokens for entry in entries)


def _from_requests(measured: Sequence[RequestRecord]) -> float | None:
    reported: list[tuple[int, int]] = [
        (request.outcome.cached_prompt_tokens, request.outcome.prompt_tokens)
        for request in measured
        if isinstance(request.outcome, Completed)
        and request.outcome.cached_prompt_tokens is not None
    ]
    prompt_tokens = sum(prompt for _, prompt in reported)
    if prompt_tokens == 0:
        return None
    return min(1.0, sum(cached for cached, _ in reported) / prompt_tokens)
