"""Tokens per second and microseconds of a captured step of both paths, in turns in one engine.

Tokens are random, so that the rows of a step choose experts of their own, as they would of text.
"""

import statistics
import time
from collections.abc import Sequence
from typing import Any, get_args

import torch

from k3decode.decode.coverage import PathName
from k3decode.layer_bench.ratio import ratio_of_rounds
from k3decode.replay_times import event_time_us
from k3decode.vllm_plugin.gpu.step_counts import decode_coverage
from k3decode.vllm_plugin.served_check.check_engine import CheckEngine

__all__ = ["time_paths"]

_PATHS: tuple[PathName, ...] = get_args(PathName)
_WARM_UP = 3
_PROMPT = 16


def time_paths(
    engine: CheckEngine, rows: int, *, rounds: int, tokens: int, replays: int
) -> dict[str, Any]:
    """Time both paths at so many requests; returns a line of results.

    Args:
        engine: with both paths.
        rows: requests.
        rounds: of both, one after the other.
        tokens: that a longer generation has more than a shorter one.
        replays: of a captured step in a round.
    """
    prompts = [
        [
            (7 + 13 * request + 29 * place) % engine.request.dims.vocab_size
            for place in range(_PROMPT)
        ]
        for request in range(rows)
    ]
    pace: dict[PathName, list[float]] = {path: [] for path in _PATHS}
    engine.model.served.counts.reset()
    for number in range(rounds):
        for path in _PATHS if number % 2 else _PATHS[::-1]:
            engine.use(path, graphs=True)
            pace[path].append(_step_s(engine, prompts, tokens))
    coverage = decode_coverage(engine.model.served.counts.read())
    steps: dict[PathName, list[float]] = {path: [] for path in _PATHS}
    for _ in range(rounds):
        engine.draw_tokens(rows)
        for path in _PATHS:
            graph = engine.graph(path, rows)
            for _ in range(_WARM_UP):
                graph.replay()
            steps[path].append(statistics.median(_replays(graph, replays)))
    ratio = ratio_of_rounds(steps["stock"], steps["candidate"])
    return {
        "rows": rows,
        "tokens_per_s": {path: rows / statistics.median(pace[path]) for path in _PATHS},
        "engine_step_us": {path: 1e6 * statistics.median(pace[path]) for path in _PATHS},
        "graph_us": {path: statistics.median(steps[path]) for path in _PATHS},
        "graph_ratio": [ratio.mean, ratio.low, ratio.high],
        "share_of_candidate_steps": coverage,
        "rounds": rounds,
    }


def _replays(graph: torch.cuda.CUDAGraph, count: int) -> list[float]:
    return [event_time_us(graph.replay) for _ in range(count)]


def _step_s(engine: CheckEngine, prompts: Sequence[Sequence[int]], tokens: int) -> float:
    """Seconds of a step: what a longer generation takes more than a shorter one."""
    times = []
    for length in (_WARM_UP, _WARM_UP + tokens):
        torch.cuda.synchronize()
        start = time.perf_counter()
        engine.generate(prompts, length, greedy=False)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return (times[1] - times[0]) / tokens
