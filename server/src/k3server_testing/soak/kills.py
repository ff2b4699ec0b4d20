"""kill -9 at random moments of intake; each contributor sends again until it is acknowledged."""

import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from k3bundle.canonical import sha256_hex
from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.sealing import sealed_archive
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.upkeep import verify_store
from k3server_testing.process import RegistryProcess

__all__ = ["KillResult", "run_kills"]

_MARGIN = 1.1


@dataclass(frozen=True)
class KillResult:
    """What became of the submissions."""

    kills: int
    """Times that the registry was killed."""
    acknowledged_before: int
    """Submissions that were acknowledged before the registry died."""
    acknowledged_after: int
    """Submissions that were acknowledged when they were sent again."""
    lost: int
    """Acknowledged submissions that are not there afterwards."""
    damaged: int
    """Submissions whose archive is not whole afterwards."""
    refused: int
    """Submissions that could not be sent again."""
    span_s: float
    """Moments were drawn from this long after the first byte was sent."""


def run_kills(folder: Path, *, kills: int, seed: int) -> KillResult:
    """Kill the registry `kills` times, each time while a new bundle is taken in."""
    draw = random.Random(seed)  # noqa: S311
    before, after, refused = 0, 0, 0
    known: list[str] = []
    registry = RegistryProcess(folder)
    try:
        span_s = _MARGIN * _time_of_one(registry)
        for number in range(kills):
            archive = sealed_archive(run_id=f"{number + 1:032x}")
            identity = _sent_while_killed(registry, archive, draw.uniform(0, span_s))
            before += identity is not None
            registry = RegistryProcess(folder)
            with registry.client() as client:
                again = _send(client, archive)
            if again is None or (identity is not None and identity != again):
                refused += 1
                continue
            after += 1
            known.append(again)
    finally:
        registry.__exit__(None, None, None)
    database = Database.in_file(folder / "registry.sqlite3")
    index = SqlIndex(database)
    lost = sum(index.get(identity) is None for identity in known)
    reports = list(verify_store(FilesystemStore(folder / "blobs"), index))
    database.close()
    return KillResult(
        kills=kills,
        acknowledged_before=before,
        acknowledged_after=after,
        lost=lost,
        damaged=sum(report.state != "intact" for report in reports),
        refused=refused,
        span_s=round(span_s, 2),
    )


def _time_of_one(registry: RegistryProcess) -> float:
    archive = sealed_archive(run_id="f" * 32)
    started = time.monotonic()
    with registry.client() as client:
        _send(client, archive)
    return time.monotonic() - started


def _sent_while_killed(registry: RegistryProcess, archive: bytes, after_s: float) -> str | None:
    """Send, and kill the registry after a while; the id when it was acknowledged before."""
    killer = threading.Timer(after_s, registry.kill)
    killer.start()
    try:
        with registry.client() as client:
            return _send(client, archive)
    except httpx.TransportError:
        return None
    finally:
        killer.join()
        registry.__exit__(None, None, None)


def _send(client: httpx.Client, archive: bytes) -> str | None:
    digest = sha256_hex(archive)
    put = client.put(f"/api/v1/blobs/{digest}", content=archive)
    if put.status_code not in {200, 201}:
        return None
    claim = {"blob_sha256": digest, **EXAMPLE_CHANGE.model_dump()}
    answer = client.post("/api/v1/submissions", json=claim)
    if answer.status_code not in {200, 201}:
        return None
    identity: str = answer.json()["submission_id"]
    return identity
