"""Times of what a GPU does, by events around it."""

from collections.abc import Callable, Sequence

import torch

__all__ = ["event_time_us", "replay_times_us"]


def event_time_us(run: Callable[[], None]) -> float:
    """Microseconds between events before and after something; waits for its end."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(1e3 * start.elapsed_time(end))


def replay_times_us(
    launches: Sequence[Callable[[], None]], *, warm_up: int, replays: int
) -> list[float]:
    """Microseconds of each replay of a graph with these launches.

    Args:
        launches: What to capture, in order; each runs once before, so that it is compiled.
        warm_up: Replays that are not timed.
        replays: Replays that are.
    """
    for launch in launches:
        launch()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    for _ in range(warm_up):
        graph.replay()
    return [event_time_us(graph.replay) for _ in range(replays)]
