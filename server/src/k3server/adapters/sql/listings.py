"""What lists filter by: one row per submission, made again from what was noted about it."""

from datetime import datetime

import sqlalchemy as sa

from k3server.adapters.sql.outbox import note_in
from k3server.adapters.sql.tables import acts, attributions, listings, submissions, witnesses
from k3server.submission import NewSubmission
from k3server.trust import LADDER, NonceStanding, State, lowers_trust, trust_level

__all__ = ["first_listing", "note_submission", "refresh"]

_STATES: dict[str, State] = {
    "quarantine": "quarantined",
    "release": "visible",
    "retract": "retracted",
}


def first_listing(new: NewSubmission, sequence: int) -> dict[str, object]:
    """The row of a submission of which nothing is noted yet."""
    document = new.document
    change = document.manifest.change
    return {
        "sequence": sequence,
        "bundle_sha256": document.bundle_sha256,
        "repository_key": change.repository.lower(),
        "pull_request": change.pull_request,
        "commit_sha": change.commit_sha,
        "status": document.verdict.status,
        "tier": document.plan.tier,
        "subject": document.plan.subject,
        "plan_sha256": document.manifest.run.plan_sha256,
        "signer": document.signer_fingerprint,
        "space": "playground",
        "trust": LADDER[0],
        "state": "visible",
    }


def refresh(connection: sa.Connection, bundle_sha256: str) -> None:
    """Make the row of a submission again from attributions, decisions and witnesses."""
    own = attributions.c.bundle_sha256 == bundle_sha256
    vouched = connection.execute(
        sa.select(attributions).where(own).order_by(attributions.c.sequence)
    ).all()
    level = trust_level(
        [row.trust for row in vouched],
        _standing(connection, bundle_sha256),
        witnessed=_has_witness(connection, bundle_sha256),
        audited=_last(connection, bundle_sha256, ("audit", "unaudit"))[0] == "audit",
    )
    action, reason = _last(connection, bundle_sha256, tuple(_STATES))
    state = _STATES.get(action, "visible")
    first = vouched[0] if vouched else None
    connection.execute(
        listings.update()
        .where(listings.c.bundle_sha256 == bundle_sha256)
        .values(
            space="main" if vouched else "playground",
            trust=level,
            identity=None if first is None else first.identity,
            organisation=None if first is None else first.organisation,
            state=state,
            reason=None if state == "visible" else reason,
        )
    )


def note_submission(connection: sa.Connection, bundle_sha256: str, at: datetime) -> None:
    """Note in the outbox that something happened to the pull request of a submission."""
    statement = sa.select(listings.c.repository_key, listings.c.pull_request).where(
        listings.c.bundle_sha256 == bundle_sha256
    )
    row = connection.execute(statement).first()
    if row is not None:
        note_in(connection, row.repository_key, row.pull_request, at)


def _standing(connection: sa.Connection, bundle_sha256: str) -> NonceStanding:
    statement = sa.select(submissions.c.nonce_standing).where(
        submissions.c.bundle_sha256 == bundle_sha256
    )
    standing: NonceStanding = connection.execute(statement).scalar_one()
    return standing


def _has_witness(connection: sa.Connection, bundle_sha256: str) -> bool:
    counts = (
        sa.select(submissions.c.nonce_standing)
        .join_from(witnesses, listings, listings.c.bundle_sha256 == witnesses.c.witness_sha256)
        .join(submissions, submissions.c.sequence == listings.c.sequence)
        .where(
            witnesses.c.bundle_sha256 == bundle_sha256,
            listings.c.state == "visible",
            listings.c.space == "main",
        )
    )
    return any(not lowers_trust(row.nonce_standing) for row in connection.execute(counts))


def _last(connection: sa.Connection, target: str, actions: tuple[str, ...]) -> tuple[str, str]:
    """The last decision of some kinds and its reason; empty when there is none."""
    statement = (
        sa.select(acts.c.action, acts.c.reason)
        .where(acts.c.target == target, acts.c.action.in_(actions))
        .order_by(acts.c.sequence.desc())
        .limit(1)
    )
    row = connection.execute(statement).first()
    return ("", "") if row is None else (row.action, row.reason)
