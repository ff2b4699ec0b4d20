"""How fast pages are with many submissions."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
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

__all__ = ["PageResult", "run_pages"]

_BATCH: Final = 1000
_WARM: Final = 10
_PULLS: Final = 200


@dataclass(frozen=True)
class PageResult:
    """Times from the request to the last byte, one client, one request after another."""

    submissions: int
    """Submissions in the index."""
    requests: int
    """Requests per page that were measured."""
    p50_ms: dict[str, float]
    """Page -> median."""
    p99_ms: dict[str, float]
    """Page -> 99th percentile."""


def run_pages(folder: Path, *, count: int, requests: int) -> PageResult:
    """Fill an index with `count` submissions and ask for pages."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = _fill(folder / "registry.sqlite3", count)
    with RegistryProcess(folder) as registry, registry.client() as client:
        addresses = {
            "front": "/",
            "pull": "/example/engine/pull/7",
            "compare": f"/compare/{ids[0]}/{ids[-1]}",
            "submission": f"/submissions/{ids[count // 2]}",
            "search": f"/search?q={ids[count // 2][:9]}",
        }
        times = {name: _times(client, url, requests) for name, url in addresses.items()}
    return PageResult(
        submissions=count,
        requests=requests,
        p50_ms={name: round(statistics.median(found), 2) for name, found in times.items()},
        p99_ms={name: round(_p99(found), 2) for name, found in times.items()},
    )


def _times(client: httpx.Client, url: str, requests: int) -> list[float]:
    found = []
    for number in range(_WARM + requests):
        started = time.perf_counter()
        client.get(url).raise_for_status()
        if number >= _WARM:
            found.append(1000 * (time.perf_counter() - started))
    return found


def _p99(found: list[float]) -> float:
    return sorted(found)[min(len(found) - 1, int(0.99 * len(found)))]


def _fill(path: Path, count: int) -> list[str]:
    """Rows as the registry would have written them, but many in each transaction."""
    document = example_document()
    ids = [sha256_hex(number.to_bytes(8, "big")) for number in range(count)]
    database = Database.in_file(path)
    for start in range(0, count, _BATCH):
        rows = list(_rows(document, ids[start : start + _BATCH], start))
        with database.writing() as connection:
            connection.execute(sa.insert(submissions), [row for row, _ in rows])
            connection.execute(sa.insert(listings), [row for _, row in rows])
    database.close()
    return ids


def _rows(
    document: SubmissionDocument, ids: list[str], first: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    text = document.model_dump_json(by_alias=True)
    summary = summarise(document).model_dump_json(by_alias=True)
    now = FixedClock().now()
    for number, digest in enumerate(ids, first):
        # One pull request in two hundred is the one whose page is asked for.
        change = ChangeUnderTest(
            repository="example/engine",
            pull_request=7 + number % _PULLS,
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
                "summary": summary,
                "document": text.replace(document.bundle_sha256, digest),
            },
            listing,
        )
