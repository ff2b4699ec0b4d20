"""What a board must do, on SQLite and on a real PostgreSQL."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from k3server.adapters.sql.board import SqlBoard
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.board_ports import Board, Wanted
from k3server.submission import NewSubmission
from k3server.trust import Attribution
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock

NOW = FixedClock().now()
DAY = timedelta(days=1)
DOCUMENT = example_document()
CHANGE = DOCUMENT.manifest.change.model_copy(
    update={"repository": DOCUMENT.manifest.change.repository.lower()}
)
WANTED = Wanted(
    wanted_id="0f" * 8,
    change=CHANGE,
    tier=DOCUMENT.plan.tier,
    subject=DOCUMENT.plan.subject,
    cell_id="",
    note="On a GB300, please.",
    asked_by="token:maintainer",
    asked_at=NOW,
)


@pytest.fixture
def board(database: Database) -> Board:
    return SqlBoard(database)


def claim(board: Board, identity: str, days: float = 0) -> bool:
    now = NOW + days * DAY
    return board.claim(WANTED.wanted_id, identity, now=now, until=now + DAY)


def test_ask_again_is_the_same_thing(board: Board) -> None:
    assert board.ask(WANTED) == WANTED
    assert board.ask(replace(WANTED, wanted_id="1f" * 8)) == WANTED
    other = replace(WANTED, wanted_id="2f" * 8, cell_id="graph-capture", asked_at=NOW + DAY)
    assert board.ask(other) == other
    assert board.wanted(limit=9) == (other, WANTED)
    assert board.wanted(limit=1) == (other,)


def test_claim_holds_against_others_until_it_ends(board: Board) -> None:
    board.ask(WANTED)
    assert claim(board, "token:a")
    assert not claim(board, "token:b", 0.9)
    assert claim(board, "token:a", 0.9)
    assert not claim(board, "token:b", 1.5)
    assert claim(board, "token:b", 2)
    found = board.one(WANTED.wanted_id)
    assert found is not None
    assert found.claimed_by == "token:b"
    assert found.is_claimed(NOW + 2.5 * DAY)
    assert not found.is_claimed(NOW + 3 * DAY)


def test_claim_at_once_has_one_winner(board: Board) -> None:
    board.ask(WANTED)
    won: list[str] = []
    ready = threading.Barrier(6)

    def race(identity: str) -> None:
        ready.wait(10)
        if claim(board, identity):
            won.append(identity)

    threads = [threading.Thread(target=race, args=(f"token:{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(won) == 1


def test_release_is_for_the_holder_or_for_an_operator(board: Board) -> None:
    board.ask(WANTED)
    claim(board, "token:a")
    assert not board.release(WANTED.wanted_id, "token:b", NOW)
    assert board.release(WANTED.wanted_id, "token:a", NOW)
    assert not board.release(WANTED.wanted_id, "token:a", NOW)
    claim(board, "token:a")
    assert board.release(WANTED.wanted_id, None, NOW)
    assert claim(board, "token:b")


def test_closed_and_unknown_things_are_not_there(board: Board) -> None:
    board.ask(WANTED)
    assert board.close(WANTED.wanted_id, NOW)
    assert not board.close(WANTED.wanted_id, NOW)
    assert board.one(WANTED.wanted_id) is None
    assert board.wanted(limit=9) == ()
    with pytest.raises(KeyError):
        claim(board, "token:a")
    with pytest.raises(KeyError):
        board.release("00" * 8, None, NOW)
    board.ask(WANTED)
    assert board.wanted(limit=9) == (WANTED,)


def test_submission_that_counts_fulfils_it(database: Database, board: Board) -> None:
    board.ask(WANTED)
    index = SqlIndex(database)
    added = index.add(NewSubmission(DOCUMENT, "0" * 64, 1, NOW))
    digest = added.submission.row.bundle_sha256
    found = board.one(WANTED.wanted_id)
    assert found is not None
    assert found.fulfilled_by is None
    index.attribute(digest, Attribution("github:alice", "signed"), NOW)
    found = board.one(WANTED.wanted_id)
    assert found is not None
    assert found.fulfilled_by == digest
