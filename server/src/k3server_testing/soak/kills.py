"""kill -9 at random moments of intake; each submission is then sent again."""

import math
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from k3server_testing.process import RegistryProcess
from k3server_testing.soak.contributor import Contributor
from k3server_testing.soak.stacks import Loss, StackName, stack_in

__all__ = ["KillResult", "run_kills"]

_MARGIN = 1.1
_AT_ONCE = 4
"""Submissions on their way at each kill, begun at different moments."""


@dataclass(frozen=True)
class KillResult:
    """What became of the submissions."""

    stack: StackName
    """Where the registry kept them."""
    kills: int
    """Times that the registry was killed."""
    intakes: int
    """Submissions whose sending had begun when it was, up to four at each time."""
    acknowledged_before: int
    """Submissions that were acknowledged before the registry died."""
    acknowledged_after: int
    """Submissions that were acknowledged when they were sent again."""
    refused: int
    """Submissions that could not be sent again, or came back as another one."""
    loss: Loss
    """What is not there of what was acknowledged."""
    answers: dict[str, int]
    """Status -> answers; `none` where the registry died before it."""
    span_s: float
    """Moments were drawn from this long after the first byte was sent."""


def run_kills(
    folder: Path, *, stack: StackName, kills: int, seed: int, within_s: float = math.inf
) -> KillResult:
    """Kill the registry `kills` times, each time while new bundles are taken in.

    Args:
        folder: Of the registry.
        stack: Where it keeps things.
        kills: Times at most.
        seed: Of the moments.
        within_s: No further kill after this time; the result says how many there were.
    """
    draw = random.Random(seed)  # noqa: S311
    who = Contributor()
    done, underway, before, after, refused = 0, 0, 0, 0, 0
    end = time.monotonic() + within_s
    with stack_in(folder, stack) as kept:
        registry = kept.serve()
        try:
            span_s = _MARGIN * _time_of_some(registry, who)
            while done < kills and time.monotonic() < end:
                archives = [who.bundle() for _ in range(_AT_ONCE)]
                starts = [0.0, *(draw.uniform(0, span_s / 2) for _ in archives[1:])]
                kill_s = draw.uniform(0, span_s)
                told = _sent_while_killed(registry, who, archives, starts, kill_s)
                registry = kept.serve()
                again = _sent(registry, who, archives, [0.0] * _AT_ONCE)
                fits = [b is not None and a in {None, b} for a, b in zip(told, again, strict=True)]
                underway += sum(start < kill_s for start in starts)
                before += sum(identity is not None for identity in told)
                after += sum(fits)
                refused += len(fits) - sum(fits)
                done += 1
        finally:
            registry.__exit__(None, None, None)
        loss = kept.loss(who.acknowledged)
    return KillResult(
        stack=stack,
        kills=done,
        intakes=underway,
        acknowledged_before=before,
        acknowledged_after=after,
        refused=refused,
        loss=loss,
        answers=dict(who.answers),
        span_s=round(span_s, 2),
    )


def _time_of_some(registry: RegistryProcess, who: Contributor) -> float:
    archives = [who.bundle() for _ in range(_AT_ONCE)]
    started = time.monotonic()
    _sent(registry, who, archives, [0.0] * _AT_ONCE)
    return time.monotonic() - started


def _sent(
    registry: RegistryProcess, who: Contributor, archives: list[bytes], starts_s: list[float]
) -> list[str | None]:
    """Send each after its wait, side by side; the ids of those that were acknowledged."""

    def one(archive: bytes, start_s: float) -> str | None:
        time.sleep(start_s)
        with registry.client() as client:
            return who.send(client, archive)

    with ThreadPoolExecutor(len(archives)) as pool:
        return list(pool.map(one, archives, starts_s))


def _sent_while_killed(
    registry: RegistryProcess,
    who: Contributor,
    archives: list[bytes],
    starts_s: list[float],
    kill_s: float,
) -> list[str | None]:
    """Send, and kill the registry after a while; the ids that were acknowledged before."""
    killer = threading.Timer(kill_s, registry.kill)
    killer.start()
    try:
        return _sent(registry, who, archives, starts_s)
    finally:
        killer.join()
        registry.__exit__(None, None, None)
