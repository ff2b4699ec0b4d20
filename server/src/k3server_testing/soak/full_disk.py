"""The disk fills up at random points of intake; room comes back, and everything is sent again."""

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from k3server_testing.soak.contributor import Contributor
from k3server_testing.soak.stacks import Loss, StackName, stack_in

__all__ = ["FullDiskResult", "run_full_disk", "small_disk"]

_PATIENCE_S = 60.0


@dataclass(frozen=True)
class FullDiskResult:
    """What became of the submissions."""

    stack: StackName
    """Where the registry kept them; of the full one only the registry's own disk fills up."""
    rounds: int
    """Times that there was little room."""
    acknowledged_in_little_room: int
    """Submissions that fitted."""
    acknowledged_later: int
    """Submissions that were taken when there was room again."""
    refused: int
    """Submissions that were not."""
    leftovers: int
    """Files that are still being received afterwards."""
    loss: Loss
    """What is not there of what was acknowledged."""
    answers: dict[str, int]
    """Status -> answers; 507 says that the disk is full."""


def run_full_disk(
    folder: Path, *, stack: StackName, rounds: int, most_room_bytes: int, seed: int
) -> FullDiskResult:
    """Send `rounds` bundles, each first with between 0 and `most_room_bytes` left on the disk.

    Raises:
        RuntimeError: This machine does not let us mount a small disk.
    """
    draw = random.Random(seed)  # noqa: S311
    who = Contributor()
    little, later, refused = 0, 0, 0
    # Each submission leaves 60 KB in archive, index and log, and 8 MiB are for what is not counted.
    size_bytes = (8 << 20) + rounds * (64 << 10)
    with small_disk(folder, size_bytes), stack_in(folder, stack) as kept:
        with kept.serve() as registry, registry.client() as client:
            for _ in range(rounds):
                archive = who.bundle()
                with _room(folder, draw.randrange(most_room_bytes)):
                    little += who.send(client, archive) is not None
                known = len(who.acknowledged)
                taken = who.send_until_taken(client, archive, within_s=_PATIENCE_S)
                later += len(who.acknowledged) - known
                refused += not taken
        incoming = folder / "blobs" / "incoming"
        spool = folder / "spool"
        leftovers = sum(len(list(each.iterdir())) for each in (incoming, spool) if each.exists())
        loss = kept.loss(who.acknowledged)
    return FullDiskResult(
        stack=stack,
        rounds=rounds,
        acknowledged_in_little_room=little,
        acknowledged_later=later,
        refused=refused,
        leftovers=leftovers,
        loss=loss,
        answers=dict(who.answers),
    )


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[None]:
    """A disk of this size in a folder, in memory, gone after the block.

    Raises:
        RuntimeError: It cannot be mounted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size_bytes},mode=0755"
    command = ["mount", "-t", "tmpfs", "-o", options, "k3-small-disk", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"Expected to mount a disk of {size_bytes} bytes on {folder}, found: "
            f"{done.stderr.strip()}. Run it as a user who may mount, for example root."
        )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def _room(folder: Path, room_bytes: int) -> Iterator[None]:
    """Leave so much room on the disk for the block."""
    ballast = folder / "ballast"
    free = os.statvfs(folder)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free.f_bavail * free.f_frsize - room_bytes))
    try:
        yield
    finally:
        ballast.unlink()
