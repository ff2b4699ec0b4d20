"""How fast pages are with many submissions."""

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from k3bundle.canonical import sha256_hex
from k3bundle.subject import ChangeUnderTest
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.listings import first_listing
from k3server.adapters.sql.tables import listings, submissions
from k3server.document import SubmissionDocument, summarise
from k3server.submission import NewSubmission
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock
from k3server_testing.process import RegistryProcess

__all__ = ["PageResult", "fill", "run_pages"]

_OWN: Final = "@own@"
_BATCH: Final = 1000
_WARM: Final = 10
_FIRST_PULL: Final = 7
_PULLS: Final = 200


@dataclass(frozen=True)
class PageResult:
    """Times from the request to the last byte, one client, one request after another.

    The front page is asked for as it is. Of everything else another one is asked for each time, so
    nothing that the registry remembers of earlier answers makes them fast.
    """

    submissions: int
    """Submissions in the index."""
    requests: int
    """Requests per page that were measured."""
    p50_ms: dict[str, float]
    """Page -> median."""
    p99_ms: dict[str, float]
    """Page -> 99th percentile."""
    processor_ms: dict[str, float]
    """Page -> processor time of the registry per request, which other programs hardly change."""
    memory_bytes: int
    """Most memory of the registry's process (VmHWM)."""


def run_pages(folder: Path, *, count: int, requests: int, seed: int) -> PageResult:
    """Ask for pages of a registry with `count` submissions.

    Args:
        folder: Of the registry; filled unless it was before.
        count: Submissions.
        requests: Per page.
        seed: Of the addresses.
    """
    fill(folder, count)
    ids = _ids(count)
    draw = random.Random(seed)  # noqa: S311
    addresses: dict[str, Callable[[], str]] = {
        "front": lambda: "/",
        "older": lambda: f"/?before={draw.randrange(2, count)}",
        "pull": lambda: f"/example/engine/pull/{_FIRST_PULL + draw.randrange(min(_PULLS, count))}",
        "compare": lambda: f"/compare/{draw.choice(ids)}/{draw.choice(ids)}",
        "submission": lambda: f"/submissions/{draw.choice(ids)}",
        "search": lambda: f"/search?q={draw.choice(ids)[:9]}",
    }
    times: dict[str, list[float]] = {}
    processor: dict[str, float] = {}
    with RegistryProcess(folder) as registry:
        connection = HTTPConnection(registry.address, timeout=60)
        for name, address in addresses.items():
            for _ in range(_WARM):
                _ask(connection, address())
            before = registry.processor_s()
            times[name] = [_ask(connection, address()) for _ in range(requests)]
            processor[name] = 1000 * (registry.processor_s() - before) / requests
        connection.close()
        memory = registry.memory_bytes("VmHWM")
    return PageResult(
        submissions=count,
        requests=requests,
        p50_ms={name: round(statistics.median(found), 2) for name, found in times.items()},
        p99_ms={name: round(_p99(found), 2) for name, found in times.items()},
        processor_ms={name: round(found, 2) for name, found in processor.items()},
        memory_bytes=memory,
    )


def _ask(connection: HTTPConnection, url: str) -> float:
    """Milliseconds from the request to the last byte."""
    started = time.perf_counter()
    connection.request("GET", url)
    answer = connection.getresponse()
    answer.read()
    passed = 1000 * (time.perf_counter() - started)
    if answer.status != HTTPStatus.OK:
        raise RuntimeError(f"Expected a page at {url}, found status {answer.status}.")
    return passed


def _p99(found: list[float]) -> float:
    return sorted(found)[min(len(found) - 1, int(0.99 * len(found)))]


def _ids(count: int) -> list[str]:
    return [sha256_hex(number.to_bytes(8, "big")) for number in range(count)]


def fill(folder: Path, count: int) -> None:
    """Rows as the registry would have written them, but many in each transaction.

    Takes minutes, so that it is done before a machine is asked to be quiet.
    """
    folder.mkdir(parents=True, exist_ok=True)
    document = example_document()
    ids = _ids(count)
    database = Database.in_file(folder / "registry.sqlite3")
    with database.reading() as connection:
        there = connection.execute(sa.select(sa.func.count()).select_from(listings)).scalar_one()
    for start in range(there, count, _BATCH):
        rows = list(_rows(document, ids[start : start + _BATCH], start))
        with database.writing() as connection:
            connection.execute(sa.insert(submissions), [row for row, _ in rows])
            connection.execute(sa.insert(listings), [row for _, row in rows])
    database.close()


def _rows(
    document: SubmissionDocument, ids: list[str], first: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    text = document.model_dump_json(by_alias=True)
    told = summarise(document)
    sentence = f"{told.sentence} {_OWN}"
    summary = told.model_copy(update={"sentence": sentence}).model_dump_json(by_alias=True)
    now = FixedClock().now()
    for number, digest in enumerate(ids, first):
        # Two hundred pull requests share them.
        change = ChangeUnderTest(
            repository="example/engine",
            pull_request=_FIRST_PULL + number % _PULLS,
            commit_sha=sha256_hex(f"commit {number // 3}".encode())[:40],
        )
        new = NewSubmission(document, digest, 1, now)
        listing = {
            **first_listing(new, number + 1),
            "bundle_sha256": digest,
            "pull_request": change.pull_request,
            "commit_sha": change.commit_sha,
            "space": "main",
            "identity": "github:alice",
        }
        yield (
            {
                "sequence": number + 1,
                "bundle_sha256": digest,
                "blob_sha256": digest,
                "blob_size_bytes": 1,
                "repository": change.repository,
                "repository_key": change.repository,
                "pull_request": change.pull_request,
                "commit_sha": change.commit_sha,
                "trust": "signed",
                "nonce_standing": "local",
                "received_at_utc": now,
                # No two alike, as real ones: what was parsed for one helps no other.
                "summary": summary.replace(_OWN, digest[:8]),
                "document": text.replace(document.bundle_sha256, digest),
            },
            listing,
        )
