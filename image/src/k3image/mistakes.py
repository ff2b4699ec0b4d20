"""What people forget or mistype, tried on a real image: each must end in a sentence."""

import os
import subprocess
from dataclasses import dataclass
from typing import Final

from k3image.engine import Store
from k3image.problem import EXIT_DIFFERENT, EXIT_ENVIRONMENT, EXIT_USAGE, ImageError

__all__ = ["MISTAKES", "Mistake", "make_mistakes"]

_TEMPORARY: Final = "/tmp:exec,mode=1777"  # noqa: S108
_RESULTS: Final = ("--tmpfs", "/results:mode=1777")


@dataclass(frozen=True)
class Mistake:
    """One wrong start of a container."""

    name: str
    flags: tuple[str, ...]
    """Flags of the container engine."""
    arguments: tuple[str, ...]
    """What follows the image's name."""
    status: int
    words: tuple[str, ...]
    """What the sentence must hold: what is wrong, and what to do."""


MISTAKES: Final = (
    Mistake("no folder", (), ("--tier", "smoke"), EXIT_ENVIRONMENT, ("/results", "Mount a folder")),
    Mistake(
        "a full disk",
        ("--tmpfs", "/results:mode=1777,size=1m"),
        ("--tier", "smoke"),
        EXIT_ENVIRONMENT,
        ("The disk of /results is full", "Free some space"),
    ),
    Mistake("no such tier", _RESULTS, ("--tier", "smoek"), EXIT_USAGE, ("smoek", "smoke")),
    Mistake("no such flag", _RESULTS, ("--teir", "smoke"), EXIT_USAGE, ("--teir", "--help")),
    Mistake(
        "another machine",
        (*_RESULTS, "--env", "K3EVAL_IMAGE_ARCHITECTURE=linux/riscv64"),
        ("--tier", "smoke"),
        EXIT_ENVIRONMENT,
        ("made for riscv64", "Take the image for"),
    ),
    Mistake(
        "a tag for a digest",
        (*_RESULTS, "--env", "K3EVAL_IMAGE_DIGEST=k3-eval:cpu"),
        ("--tier", "smoke"),
        EXIT_USAGE,
        ("may mean another image tomorrow", "RepoDigests"),
    ),
)


def make_mistakes(store: Store, image: str) -> int:
    """Make every mistake once.

    Args:
        store: Where the image is.
        image: Its name.

    Returns:
        How many were made.

    Raises:
        ImageError: One ends in another status, without its sentence, or with a traceback.
    """
    for one in MISTAKES:
        done = subprocess.run(
            [
                *("podman", "run", "--rm", "--read-only", "--tmpfs", _TEMPORARY),
                *("--network", "none", "--user", "10001:10001", *one.flags, image, *one.arguments),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | store.environment,
        )
        lacking = [words for words in one.words if words not in done.stderr]
        if done.returncode != one.status or lacking or "Traceback" in done.stderr:
            raise ImageError(
                f"The mistake {one.name!r} ended with status {done.returncode}, not {one.status}, "
                f"and said: {done.stderr.strip()[-600:]}",
                f"it should say {', '.join(one.words)}.",
                EXIT_DIFFERENT,
            )
    return len(MISTAKES)
