"""In how many parts the line of tiles is cut: measured, or by the rule, which fills the GPU."""

import torch

from k3decode.tuning.choice import Question, choose

__all__ = ["chosen_parts"]

# Fewer parts leave multiprocessors to others, and partials to combine.
_SIXTEENTHS = (16, 15, 14, 12, 8)


def chosen_parts(
    most: int, cache_format: str, rows: int, each: tuple[int, int], device: torch.device
) -> int:
    """Parts of a launch.

    Args:
        most: as many as run at a time, which is what the rule takes.
        cache_format: of queries and cache rows.
        rows: of the launch.
        each: heads of a row, and rows of a request.
        device: where it runs.
    """
    heads, together = each
    question = Question("mla_decode", f"{cache_format}_{heads}_heads_q{together}", rows)
    requests = rows // together
    # Requests of one length are then cut alike, and no part has the end of one and another's begin.
    even = most // requests * requests
    counts = {max(most * sixteenths // 16, 1) for sixteenths in _SIXTEENTHS} | {even or most}
    return choose(
        question, {f"{count}_parts": count for count in sorted(counts)}, f"{most}_parts", device
    )
