"""kill -9 at random moments of intake; each contributor sends again until it is acknowledged."""

import math
import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from k3server_testing.process import RegistryProcess
from k3server_testing.soak.contributor import Contributor
from k3server_testing.soak.stacks import Loss, StackName, stack_in

__all__ = ["KillResult", "run_kills"]

_MARGIN = 1.1


@dataclass(frozen=True)
class KillResult:
    """What became of the submissions."""

    stack: StackName
    """Where the registry kept them."""
    kills: int
    """Times that the registry was killed."""
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
    """Kill the registry `kills` times, each time while a new bundle is taken in.

    Args:
        folder: Of the registry.
        stack: Where it keeps things.
        kills: Times at most.
        seed: Of the moments.
        within_s: No further kill after this time; the result says how many there were.
    """
    draw = random.Random(seed)  # noqa: S311
    who = Contributor()
    done, before, after, refused = 0, 0, 0, 0
    end = time.monotonic() + within_s
    with stack_in(folder, stack) as kept:
        registry = kept.serve()
        try:
            span_s = _MARGIN * _time_of_one(registry, who)
            while done < kills and time.monotonic() < end:
                archive = who.bundle()
                identity = _sent_while_killed(registry, who, archive, draw.uniform(0, span_s))
                before += identity is not None
                registry = kept.serve()
                with registry.client() as client:
                    again = who.send(client, archive)
                fits = again is not None and identity in {None, again}
                after += fits
                refused += not fits
                done += 1
        finally:
            registry.__exit__(None, None, None)
        loss = kept.loss(who.acknowledged)
    return KillResult(
        stack=stack,
        kills=done,
        acknowledged_before=before,
        acknowledged_after=after,
        refused=refused,
        loss=loss,
        answers=dict(who.answers),
        span_s=round(span_s, 2),
    )


def _time_of_one(registry: RegistryProcess, who: Contributor) -> float:
    archive = who.bundle()
    started = time.monotonic()
    with registry.client() as client:
        who.send(client, archive)
    return time.monotonic() - started


def _sent_while_killed(
    registry: RegistryProcess, who: Contributor, archive: bytes, after_s: float
) -> str | None:
    """Send, and kill the registry after a while; the id when it was acknowledged before."""
    killer = threading.Timer(after_s, registry.kill)
    killer.start()
    try:
        with registry.client() as client:
            return who.send(client, archive)
    finally:
        killer.join()
        registry.__exit__(None, None, None)
