"""`python -m k3server_testing.crashing_registry POINT serve ...`: dies at a named point of intake.

It dies by SIGKILL, so that nothing is cleaned up, as in a power cut.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from k3server import cli
from k3server.adapters import child_verifier, filesystem_store
from k3server.adapters.sql import index as sql_index
from k3server.routes import blobs, submissions

__all__ = ["POINTS", "VERIFIER_PID_VARIABLE", "main"]

VERIFIER_PID_VARIABLE: Final = "K3_TEST_VERIFIER_PID_FILE"
"""Environment variable: where `verifier-running` writes the verifier's process id."""


@dataclass(frozen=True)
class Point:
    """A call before or after which the process dies."""

    owner: Any
    name: str
    when: Literal["before", "after"]
    call: int = 1
    """Which call, from 1."""


_FILE: Final = filesystem_store._IncomingFile

POINTS: Final[dict[str, Point]] = {
    "upload-written": Point(_FILE, "commit", "before"),
    "upload-synced": Point(_FILE, "_link", "before"),
    "upload-linked": Point(_FILE, "_link", "after"),
    "upload-stored": Point(blobs, "BlobAnswer", "before"),
    "verifier-running": Point(child_verifier.asyncio, "create_subprocess_exec", "after"),  # type: ignore[attr-defined]
    "verified": Point(sql_index.SqlIndex, "add", "before"),
    "transaction-open": Point(sql_index, "_values", "before"),
    "transaction-inserted": Point(sql_index, "first_listing", "before"),
    "committed": Point(sql_index.SqlIndex, "add", "after"),
    "answer-ready": Point(submissions, "submission_answer", "after"),
}
"""Every point, in the order in which intake passes them."""


def main() -> int:
    """Arm the point and start the registry."""
    point = POINTS[sys.argv.pop(1)]
    original: Callable[..., Any] = getattr(point.owner, point.name)
    calls = 0

    def armed(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < point.call:
            return original(*arguments, **named)
        if point.when == "before":
            _die()
        result = original(*arguments, **named)
        return _die_when_done(result) if hasattr(result, "__await__") else _die()

    setattr(point.owner, point.name, armed)
    return cli.main(sys.argv[1:])


async def _die_when_done(result: Any) -> None:
    process = await result
    Path(os.environ[VERIFIER_PID_VARIABLE]).write_text(str(process.pid))
    _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
