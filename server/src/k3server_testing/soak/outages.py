"""Database and object store go away and come back while submissions are taken in."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from k3server_testing.soak.contributor import Contributor
from k3server_testing.soak.stacks import FullStack, Loss

__all__ = ["OutageResult", "run_outages"]

_SPAN_S = 3.0
_DOWN_S = (0.0, 2.0)
_PATIENCE_S = 180.0


@dataclass(frozen=True)
class OutageResult:
    """What became of the submissions."""

    what: Literal["database", "store"]
    """What went away: PostgreSQL by an immediate shutdown, SeaweedFS by SIGKILL."""
    outages: int
    """Times that it did."""
    acknowledged: int
    """Submissions that were acknowledged, at the latest when they were sent again."""
    sent_again: int
    """Submissions that were not acknowledged at first."""
    refused: int
    """Submissions that were not taken though everything was back."""
    loss: Loss
    """What is not there of what was acknowledged."""
    answers: dict[str, int]
    """Status -> answers."""


def run_outages(
    folder: Path, *, what: Literal["database", "store"], outages: int, seed: int
) -> OutageResult:
    """Take `what` away at `outages` random moments of intake; one registry serves all the time."""
    draw = random.Random(seed)  # noqa: S311
    who = Contributor()
    again, refused = 0, 0
    folder.mkdir(parents=True, exist_ok=True)
    with FullStack(folder) as kept:
        with kept.serve() as registry, registry.client() as client:
            for _ in range(outages):
                pending = []
                with _away(kept, what, draw.uniform(0, _SPAN_S), draw.uniform(*_DOWN_S)) as over:
                    while not over.is_set():
                        archive = who.bundle()
                        if who.send(client, archive) is None:
                            pending.append(archive)
                for archive in pending:
                    refused += not who.send_until_taken(client, archive, within_s=_PATIENCE_S)
                again += len(pending)
        loss = kept.loss(who.acknowledged)
    return OutageResult(
        what=what,
        outages=outages,
        acknowledged=len(who.acknowledged),
        sent_again=again,
        refused=refused,
        loss=loss,
        answers=dict(who.answers),
    )


@contextmanager
def _away(kept: FullStack, what: str, after_s: float, down_s: float) -> Iterator[threading.Event]:
    """Take it away after a while, and set the event a while later; after the block it is back."""
    over = threading.Event()

    def take_away() -> None:
        if what == "database":
            kept.database.crash()
        else:
            kept.store.kill()
        time.sleep(down_s)
        over.set()

    timer = threading.Timer(after_s, take_away)
    timer.start()
    try:
        yield over
    finally:
        timer.join()
        (kept.database if what == "database" else kept.store).start()
