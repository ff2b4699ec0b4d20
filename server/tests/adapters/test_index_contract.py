"""What every index must do, run on every adapter."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from k3bundle.subject import ChangeUnderTest
from k3server.adapters.sqlite_index import SqliteIndex
from k3server.document import summarise
from k3server.ports import SubmissionIndex
from k3server.submission import NewSubmission
from k3server.trust import NonceStanding, NonceTicket
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock
from k3server_testing.memory_index import MemoryIndex

ADAPTERS: dict[str, Callable[[Path], SubmissionIndex]] = {
    "memory": lambda _: MemoryIndex(),
    "sqlite": lambda folder: SqliteIndex(folder / "index.sqlite3"),
}
NOW = FixedClock().now()
NONCE = "5e" * 32
CHANGE = ChangeUnderTest(repository="Example/Engine", pull_request=7, commit_sha="ab" * 20)
OTHER = ChangeUnderTest(repository="example/other", pull_request=7, commit_sha="ab" * 20)


@pytest.fixture(params=sorted(ADAPTERS))
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SubmissionIndex]:
    made = ADAPTERS[request.param](tmp_path)
    yield made
    if isinstance(made, SqliteIndex):
        made.close()


def new(number: int, change: ChangeUnderTest = CHANGE, at: datetime = NOW) -> NewSubmission:
    return NewSubmission(
        document=example_document(run_id=f"{number:032x}", change=change),
        blob_sha256=f"{number:064x}",
        blob_size_bytes=1000 + number,
        trust="self-reported",
        received_at=at,
    )


def with_nonce(number: int, at: datetime = NOW) -> NewSubmission:
    document = example_document(
        run_id=f"{number:032x}", change=CHANGE, nonce=NONCE, nonce_source="registry"
    )
    return replace(new(number, at=at), document=document)


def ticket(change: ChangeUnderTest = CHANGE) -> NonceTicket:
    plan = example_document().manifest.run.plan_sha256
    return NonceTicket(NONCE, change, plan, NOW, NOW + timedelta(hours=1))


def test_add_then_get_returns_everything(index: SubmissionIndex) -> None:
    given = new(1)
    added = index.add(given)
    assert added.created
    found = index.get(given.document.bundle_sha256)
    assert found == added.submission
    assert found is not None
    assert found.document == given.document
    row = found.row
    assert row.summary == summarise(given.document)
    assert (row.sequence, row.blob_sha256, row.blob_size_bytes) == (1, given.blob_sha256, 1001)
    assert (row.change, row.trust, row.received_at) == (CHANGE, "self-reported", NOW)
    assert index.find_blob(given.blob_sha256) == found


def test_add_again_keeps_the_first(index: SubmissionIndex) -> None:
    first = index.add(new(1))
    later = replace(new(1), blob_sha256="ff" * 32, received_at=NOW + timedelta(days=1))
    second = index.add(later)
    assert not second.created
    assert second.submission == first.submission
    assert len(index.latest(limit=10)) == 1


def test_get_unknown_is_none(index: SubmissionIndex) -> None:
    assert index.get("00" * 32) is None
    assert index.find_blob("00" * 32) is None
    assert index.latest(limit=10) == ()


def test_lists_are_newest_first_and_page_by_cursor(index: SubmissionIndex) -> None:
    for number in range(1, 6):
        index.add(new(number))
    first = index.latest(limit=2)
    assert [row.blob_size_bytes for row in first] == [1005, 1004]
    second = index.latest(limit=2, before=first[-1].sequence)
    assert [row.blob_size_bytes for row in second] == [1003, 1002]
    pulls = index.of_pull("Example/Engine", 7, limit=3, before=first[-1].sequence)
    assert [row.blob_size_bytes for row in pulls] == [1003, 1002, 1001]
    commits = index.of_commit("Example/Engine", "ab" * 20, limit=1, before=2)
    assert [row.blob_size_bytes for row in commits] == [1001]


def test_lists_hold_only_what_was_asked_for_in_any_case(index: SubmissionIndex) -> None:
    index.add(new(1, CHANGE))
    index.add(new(2, OTHER))
    assert [row.change for row in index.of_pull("EXAMPLE/engine", 7, limit=9)] == [CHANGE]
    assert [row.change for row in index.of_commit("Example/OTHER", "ab" * 20, limit=9)] == [OTHER]
    assert index.of_pull("example/engine", 8, limit=9) == ()
    assert index.of_commit("example/engine", "ac" * 20, limit=9) == ()


@pytest.mark.parametrize(
    ("issued_for", "seconds", "standing"),
    [
        (CHANGE, 3600, "issued-here"),
        (CHANGE, 3601, "expired"),
        (OTHER, 0, "foreign"),
        (None, 0, "unknown"),
    ],
)
def test_add_judges_the_nonce(
    index: SubmissionIndex,
    issued_for: ChangeUnderTest | None,
    seconds: int,
    standing: NonceStanding,
) -> None:
    if issued_for is not None:
        index.issue_nonce(ticket(issued_for))
    added = index.add(with_nonce(1, NOW + timedelta(seconds=seconds)))
    assert added.submission.row.nonce_standing == standing


def test_add_second_use_of_a_nonce_is_reuse(index: SubmissionIndex) -> None:
    index.issue_nonce(ticket())
    standings = [index.add(with_nonce(n)).submission.row.nonce_standing for n in (1, 2, 1)]
    assert standings == ["issued-here", "reused", "issued-here"]


def test_issue_nonce_twice_is_refused(index: SubmissionIndex) -> None:
    index.issue_nonce(ticket())
    with pytest.raises(KeyError, match=NONCE):
        index.issue_nonce(ticket(OTHER))
