"""What lists filter by: one row per submission, made again from what was noted about it."""

from datetime import datetime

import sqlalchemy as sa

from k3server.adapters.sql.outbox import note_in
from k3server.adapters.sql.tables import acts, attributions, listings, witnesses
from k3server.submission import NewSubmission
from k3server.trust import LADDER, State, TrustLevel, highest

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
    levels: list[TrustLevel] = [row.trust for row in vouched]
    if vouched and _has_witness(connection, bundle_sha256):
        levels.append("reproduced")
    if _last(connection, bundle_sha256, ("audit", "unaudit"))[0] == "audit":
        levels.append("audited")
    action, reason = _last(connection, bundle_sha256, tuple(_STATES))
    state = _STATES.get(action, "visible")
    first = vouched[0] if vouched else None
    connection.execute(
        listings.update()
        .where(listings.c.bundle_sha256 == bundle_sha256)
        .values(
            space="main" if vouched else "playground",
            trust=highest(levels),
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


def _has_witness(connection: sa.Connection, bundle_sha256: str) -> bool:
    standing = (
        sa.select(witnesses.c.witness_sha256)
        .join(listings, listings.c.bundle_sha256 == witnesses.c.witness_sha256)
        .where(
            witnesses.c.bundle_sha256 == bundle_sha256,
            listings.c.state == "visible",
            listings.c.space == "main",
        )
    )
    return connection.execute(standing.limit(1)).first() is not None


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
