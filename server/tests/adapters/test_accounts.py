"""What accounts and decisions must do, on SQLite and on a real PostgreSQL."""

import secrets
from datetime import timedelta

import pytest
import sqlalchemy as sa

from k3server.account_ports import Action, NoEvidenceError
from k3server.adapters.sql.accounts import SqlAccounts
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.index import SqlIndex
from k3server.adapters.sql.moderation import SqlModeration
from k3server.bearer import make_token
from k3server.submission import NewSubmission, SubmissionRow
from k3server.trust import Attribution
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock

NOW = FixedClock().now()
DAY = timedelta(days=1)


def add(database: Database, number: int, identity: str | None = None) -> str:
    document = example_document(run_id=f"{number:032x}")
    attribution = None if identity is None else Attribution(identity, "signed")
    new = NewSubmission(document, f"{number:064x}", 1, NOW, attribution)
    return SqlIndex(database).add(new).submission.row.bundle_sha256


def row(database: Database, digest: str) -> SubmissionRow:
    found = SqlIndex(database).get(digest)
    assert found is not None
    return found.row


def decide(database: Database, action: Action, target: str, reason: str = "Because.") -> None:
    SqlModeration(database).decide(action, target, actor="operator:x", reason=reason, at=NOW)


def test_tokens_are_kept_found_and_revoked_once(database: Database) -> None:
    accounts = SqlAccounts(database)
    _, token = make_token(
        "lab",
        ["claim", "submit"],
        organisation="university",
        now=NOW,
        lifetime=DAY,
        draw_hex=secrets.token_hex,
    )
    accounts.add(token, "operator:x")
    assert accounts.find(token.token_id) == token
    assert accounts.find("00" * 8) is None
    assert accounts.revoke(token.token_id, "operator:x", NOW + DAY)
    assert not accounts.revoke(token.token_id, "operator:x", NOW + DAY)
    (kept,) = accounts.tokens()
    assert kept.revoked_at == NOW + DAY
    acts = SqlModeration(database).acts(limit=9)
    assert [(act.action, act.target) for act in acts] == [
        ("revoke", token.token_id),
        ("token", token.token_id),
    ]


def test_attribution_takes_a_submission_out_of_the_playground(database: Database) -> None:
    index = SqlIndex(database)
    digest = add(database, 1)
    assert (row(database, digest).space, row(database, digest).trust) == (
        "playground",
        "self-reported",
    )
    index.attribute(digest, Attribution("token:lab", "self-reported", "university"), NOW)
    assert row(database, digest).space == "main"
    index.attribute(digest, Attribution("github:alice", "signed"), NOW)
    index.attribute(digest, Attribution("github:alice", "signed"), NOW + DAY)
    found = row(database, digest)
    assert (found.trust, found.identity, found.organisation) == (
        "signed",
        "token:lab",
        "university",
    )
    with pytest.raises(KeyError):
        index.attribute("00" * 32, Attribution("github:alice", "signed"), NOW)


def test_quarantine_hides_and_release_shows_again(database: Database) -> None:
    index = SqlIndex(database)
    digest, other = add(database, 1, "github:a"), add(database, 2, "github:b")
    decide(database, "quarantine", digest, "Numbers above the roofline.")
    change = example_document().manifest.change
    lists = (
        index.latest(limit=9),
        index.of_pull(change.repository, change.pull_request, limit=9),
        index.of_commit(change.repository, change.commit_sha, limit=9),
    )
    assert [[each.bundle_sha256 for each in rows] for rows in lists] == [[other]] * 3
    assert row(database, digest).reason == "Numbers above the roofline."
    assert len(index.every(limit=9)) == 2
    decide(database, "release", digest)
    assert (row(database, digest).state, row(database, digest).reason) == ("visible", None)
    assert len(index.latest(limit=9)) == 2


def test_retracted_stays_in_lists_and_is_no_latest_good(database: Database) -> None:
    index = SqlIndex(database)
    change = example_document().manifest.change
    old, new = add(database, 1, "github:a"), add(database, 2, "github:b")
    add(database, 3)
    good = index.latest_good(change.repository.upper(), change.pull_request)
    assert good is not None
    assert good.bundle_sha256 == new
    decide(database, "retract", new)
    good = index.latest_good(change.repository, change.pull_request)
    assert good is not None
    assert good.bundle_sha256 == old
    assert [each.state for each in index.latest(limit=2)] == ["visible", "retracted"]


def test_witnesses_raise_trust_while_they_stand(database: Database) -> None:
    one, two = add(database, 1, "github:a"), add(database, 2, "github:b")
    SqlIndex(database).add_witness(one, two, NOW)
    SqlIndex(database).add_witness(two, one, NOW)
    assert [row(database, each).trust for each in (one, two)] == ["reproduced"] * 2
    decide(database, "retract", two)
    assert row(database, one).trust == "signed"
    decide(database, "release", two)
    assert row(database, one).trust == "reproduced"
    decide(database, "audit", one)
    assert row(database, one).trust == "audited"
    decide(database, "unaudit", one)
    assert row(database, one).trust == "reproduced"


def test_bans_are_taken_back_and_logged(database: Database) -> None:
    moderation = SqlModeration(database)
    decide(database, "ban", "github:mallory", "Forged logs.")
    assert moderation.ban_of("key:SHA256:x", "github:mallory") == "Forged logs."
    assert moderation.ban_of("github:alice") is None
    decide(database, "unban", "github:mallory")
    assert moderation.ban_of("github:mallory") is None
    with pytest.raises(KeyError):
        decide(database, "unban", "github:mallory")
    first, second = moderation.acts(limit=9)
    assert (first.action, second.action, second.reason) == ("unban", "ban", "Forged logs.")
    assert moderation.acts(limit=9, before=first.sequence) == (second,)


def test_decision_about_nothing_is_refused_and_not_logged(database: Database) -> None:
    with pytest.raises(KeyError):
        decide(database, "retract", "00" * 32)
    assert SqlModeration(database).acts(limit=9) == ()


def test_audit_of_a_retracted_submission_is_refused_and_not_logged(database: Database) -> None:
    digest = add(database, 1, "github:a")
    decide(database, "retract", digest)
    with pytest.raises(NoEvidenceError):
        decide(database, "audit", digest)
    assert (row(database, digest).trust, row(database, digest).state) == ("signed", "retracted")
    assert [act.action for act in SqlModeration(database).acts(limit=9)] == ["retract"]
    decide(database, "release", digest)
    decide(database, "audit", digest)
    assert row(database, digest).trust == "audited"


@pytest.mark.parametrize("table", ["acts", "attributions"])
def test_database_itself_refuses_to_change_the_log(database: Database, table: str) -> None:
    digest = add(database, 1, "github:a")
    decide(database, "retract", digest)
    with (
        pytest.raises(sa.exc.IntegrityError, match="append-only"),
        database.writing() as connection,
    ):
        connection.execute(sa.text(f"DELETE FROM {table}"))  # noqa: S608
