"""What every index must do, run on SQLite and on a real PostgreSQL."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from k3bundle.subject import ChangeUnderTest
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.document import summarise
from k3server.ports import SubmissionIndex
from k3server.submission import NewSubmission
from k3server.trust import Attribution, NonceStanding, NonceTicket
from k3server_testing.example_document import EXAMPLE_FINGERPRINT, example_document
from k3server_testing.fixed_clock import FixedClock

NOW = FixedClock().now()
NONCE = "5e" * 32
CHANGE = ChangeUnderTest(repository="Example/Engine", pull_request=7, commit_sha="ab" * 20)
OTHER = ChangeUnderTest(repository="example/other", pull_request=7, commit_sha="ab" * 20)


@pytest.fixture
def index(database: Database) -> SubmissionIndex:
    return SqlIndex(database)


def new(number: int, change: ChangeUnderTest = CHANGE, at: datetime = NOW) -> NewSubmission:
    return NewSubmission(
        document=example_document(run_id=f"{number:032x}", change=change),
        blob_sha256=f"{number:064x}",
        blob_size_bytes=1000 + number,
        received_at=at,
    )


def with_nonce(number: int, at: datetime = NOW) -> NewSubmission:
    document = example_document(
        run_id=f"{number:032x}", change=CHANGE, nonce=NONCE, nonce_source="registry"
    )
    return replace(new(number, at=at), document=document)


def ticket(change: ChangeUnderTest = CHANGE) -> NonceTicket:
    plan = example_document().manifest.run.plan_sha256
    return NonceTicket(NONCE, change, plan, NOW, NOW + timedelta(hours=1), EXAMPLE_FINGERPRINT)


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


def test_nonce_of_another_key_is_foreign_and_the_level_stays_low(index: SubmissionIndex) -> None:
    index.issue_nonce(replace(ticket(), signer="SHA256:" + "B" * 43))
    known = Attribution("github:alice", "signed")
    foreign = index.add(replace(with_nonce(1), attribution=known)).submission.row
    assert (foreign.nonce_standing, foreign.trust, foreign.space) == (
        "foreign",
        "self-reported",
        "main",
    )


def test_run_with_a_reused_nonce_witnesses_nothing(index: SubmissionIndex) -> None:
    index.issue_nonce(ticket())
    one, other, third = (
        index.add(replace(made, attribution=Attribution(name, "signed"))).submission.row
        for made, name in (
            (with_nonce(1), "github:a"),
            (with_nonce(2), "github:b"),
            (new(3), "github:c"),
        )
    )
    index.add_witness(one.bundle_sha256, other.bundle_sha256, NOW)
    levels = [index.get(row.bundle_sha256) for row in (one, other)]
    assert [found and found.row.trust for found in levels] == ["signed", "self-reported"]
    index.add_witness(one.bundle_sha256, third.bundle_sha256, NOW)
    found = index.get(one.bundle_sha256)
    assert found is not None
    assert found.row.trust == "reproduced"


def test_issue_nonce_twice_is_refused(index: SubmissionIndex) -> None:
    index.issue_nonce(ticket())
    with pytest.raises(KeyError, match=NONCE):
        index.issue_nonce(ticket(OTHER))


def test_every_lists_all_of_them(index: SubmissionIndex) -> None:
    for number in (1, 2, 3):
        index.add(new(number))
    assert [row.blob_size_bytes for row in index.every(limit=2)] == [1003, 1002]


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Run calls in threads that start together."""
    ready = threading.Barrier(len(calls))
    results: list[object] = []

    def run(call: Callable[[], object]) -> None:
        ready.wait(10)
        results.append(call())

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_add_at_once_has_one_winner(index: SubmissionIndex) -> None:
    results = at_once(*(lambda: index.add(new(1)).created for _ in range(8)))
    assert sorted(map(bool, results)) == [False] * 7 + [True]
    assert len(index.latest(limit=10)) == 1


def test_nonce_used_at_once_counts_for_one(index: SubmissionIndex) -> None:
    index.issue_nonce(ticket())

    def use(number: int) -> Callable[[], object]:
        return lambda: index.add(with_nonce(number)).submission.row.nonce_standing

    results = at_once(*(use(number) for number in range(1, 7)))
    assert sorted(map(str, results)) == ["issued-here"] + ["reused"] * 5


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM submissions", "UPDATE submissions SET trust = 'signed'"],
)
def test_database_itself_refuses_to_change_a_submission(database: Database, statement: str) -> None:
    SqlIndex(database).add(new(1))
    with (
        pytest.raises(sa.exc.IntegrityError, match="append-only"),
        database.writing() as connection,
    ):
        connection.execute(sa.text(statement))
    assert len(SqlIndex(database).latest(limit=2)) == 1


def test_add_naive_time_is_refused_and_leaves_no_lock(index: SubmissionIndex) -> None:
    with pytest.raises(sa.exc.StatementError, match="without a zone"):
        index.add(new(1, at=NOW.replace(tzinfo=None)))
    assert index.add(new(1)).created
