"""How many processes a load needs, and which shots each of them sends. Pure."""

from collections.abc import Sequence

from k3runner.load.capture import Shot

__all__ = ["Share", "process_count", "shares_of"]

Share = tuple[tuple[Shot, ...], int]
"""Shots of one process, and how many of them it keeps in flight."""

_STREAMS_PER_PROCESS = 64
"""A core receives 20,000 events/s; 64 streams of 300 tokens/s each stay below that."""
_CPUS_PER_PROCESS = 4
"""The engine under test runs on the same machine and keeps most of it."""


def process_count(streams: int, cpu_count: int) -> int:
    """Processes for so many streams.

    Args:
        streams: Requests in flight.
        cpu_count: CPUs that the runner may use.

    Returns:
        One for every 64 streams, but at most one for every four CPUs, and at least one.
    """
    wanted = -(-streams // _STREAMS_PER_PROCESS)
    return max(1, min(wanted, cpu_count // _CPUS_PER_PROCESS))


def shares_of(shots: Sequence[Shot], streams: int, processes: int) -> tuple[Share, ...]:
    """Deals shots to processes.

    Each stream belongs to one process; shots are dealt to the streams in turn, so that every
    process gets shots in proportion to its streams and in the planned order.

    Args:
        shots: All shots of a phase, in order.
        streams: Requests in flight over all processes.
        processes: Processes at hand.

    Returns:
        A share for each process that has a stream; none is empty unless there are no shots.
    """
    lanes = max(1, min(streams, len(shots)))
    used = min(processes, lanes)
    dealt: list[list[Shot]] = [[] for _ in range(used)]
    for order, shot in enumerate(shots):
        dealt[order % lanes % used].append(shot)
    counts = [len(range(number, lanes, used)) for number in range(used)]
    # Streams beyond the number of shots still count where shots have due times.
    counts[0] += max(0, streams - lanes)
    return tuple((tuple(share), count) for share, count in zip(dealt, counts, strict=True))
