"""What an outbox must do, on SQLite and on a real PostgreSQL."""

from datetime import timedelta

import pytest

from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.adapters.sql.moderation import SqlModeration
from k3server.adapters.sql.outbox import SqlOutbox
from k3server.forge_ports import Outbox, PullState
from k3server.submission import NewSubmission
from k3server.trust import Attribution
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock

NOW = FixedClock().now()
MINUTE = timedelta(minutes=1)
CHANGE = example_document().manifest.change
PULL = (CHANGE.repository.lower(), CHANGE.pull_request)


@pytest.fixture
def outbox(database: Database) -> Outbox:
    return SqlOutbox(database)


def due(outbox: Outbox, minutes: float = 0) -> list[tuple[str, int, int, int]]:
    notices = outbox.due(NOW + minutes * MINUTE, limit=10, lease_s=300)
    return [(n.repository, n.pull_request, n.generation, n.attempts) for n in notices]


def test_notice_is_leased_and_comes_back_when_nobody_finished_it(outbox: Outbox) -> None:
    outbox.note("Owner/Name", 7, NOW)
    assert due(outbox) == [("owner/name", 7, 1, 0)]
    assert due(outbox, 4) == []
    assert due(outbox, 5) == [("owner/name", 7, 1, 0)]


def test_many_events_are_one_notice_and_what_happened_meanwhile_is_not_lost(
    outbox: Outbox,
) -> None:
    for _ in range(3):
        outbox.note("owner/name", 7, NOW)
    assert outbox.waiting() == 1
    (notice,) = outbox.due(NOW, limit=10, lease_s=300)
    outbox.note("OWNER/name", 7, NOW + MINUTE)
    outbox.done(notice)
    (again,) = outbox.due(NOW + MINUTE, limit=10, lease_s=300)
    assert again.generation == notice.generation + 1
    outbox.done(again)
    assert outbox.waiting() == 0


def test_put_off_notice_waits_and_counts_its_attempts(outbox: Outbox) -> None:
    outbox.note("owner/name", 7, NOW)
    (notice,) = outbox.due(NOW, limit=10, lease_s=1)
    outbox.put_off(notice, NOW + 10 * MINUTE, "down " * 1000)
    assert due(outbox, 9) == []
    assert due(outbox, 10) == [("owner/name", 7, 1, 1)]


def test_limit_and_order(outbox: Outbox) -> None:
    for number in (3, 1, 2):
        outbox.note("owner/name", number, NOW + number * MINUTE)
    notices = outbox.due(NOW + 5 * MINUTE, limit=2, lease_s=300)
    assert [notice.pull_request for notice in notices] == [1, 2]


def test_pull_is_remembered(outbox: Outbox) -> None:
    state = PullState("ab" * 20, True, "", NOW)
    later = PullState("cd" * 20, False, "ef" * 32, NOW + MINUTE)
    assert outbox.pull("owner/name", 7) is None
    outbox.keep_pull("Owner/name", 7, state)
    assert outbox.pull("owner/Name", 7) == state
    outbox.keep_pull("owner/name", 7, later)
    assert outbox.pull("owner/name", 7) == later


def test_delivery_is_first_once(outbox: Outbox) -> None:
    assert outbox.is_first_delivery("guid-1", NOW)
    assert not outbox.is_first_delivery("guid-1", NOW + MINUTE)
    assert outbox.is_first_delivery("guid-2", NOW)


def test_every_change_of_a_submission_notes_its_pull_request(
    database: Database, outbox: Outbox
) -> None:
    index = SqlIndex(database, tells=True)

    def noted() -> bool:
        notices = outbox.due(NOW, limit=10, lease_s=300)
        for notice in notices:
            outbox.done(notice)
        return [(n.repository, n.pull_request) for n in notices] == [PULL]

    digest = (
        index.add(NewSubmission(example_document(), "0" * 64, 1, NOW))
    ).submission.row.bundle_sha256
    assert noted()
    assert not noted()
    index.attribute(digest, Attribution("github:alice", "signed"), NOW)
    assert noted()
    SqlModeration(database).decide("retract", digest, actor="x", reason="y", at=NOW)
    assert noted()


def test_registry_that_tells_nobody_keeps_no_notices(database: Database, outbox: Outbox) -> None:
    SqlIndex(database).add(NewSubmission(example_document(), "0" * 64, 1, NOW))
    assert outbox.waiting() == 0
