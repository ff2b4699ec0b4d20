"""The tables as statements name them. The migrations make them; a test compares both."""

from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

__all__ = [
    "METADATA",
    "Moment",
    "acts",
    "attributions",
    "bans",
    "blobs",
    "deliveries",
    "listings",
    "nonce_uses",
    "nonces",
    "outbox",
    "pulls",
    "submissions",
    "tokens",
    "upload_parts",
    "uploads",
    "wanted",
    "witnesses",
]

_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"

METADATA: Final = sa.MetaData()
"""Every table."""


class Moment(sa.types.TypeDecorator[datetime]):
    """A time in UTC as text of fixed width, so that both engines sort and keep it alike."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> str | None:
        """Refuse a time without a zone, write any other in UTC."""
        del dialect
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"Expected an aware time, found {value.isoformat()} without a zone.")
        return value.astimezone(UTC).strftime(_TIME)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> datetime | None:
        """Give the zone back."""
        del dialect
        # Not strptime: reading a page of rows would spend a third of its time there.
        return None if value is None else datetime.fromisoformat(value)


submissions: Final = sa.Table(
    "submissions",
    METADATA,
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("bundle_sha256", sa.Text, nullable=False, unique=True),
    sa.Column("blob_sha256", sa.Text, nullable=False),
    sa.Column("blob_size_bytes", sa.BigInteger, nullable=False),
    sa.Column("repository", sa.Text, nullable=False),
    sa.Column("repository_key", sa.Text, nullable=False),
    sa.Column("pull_request", sa.Integer, nullable=False),
    sa.Column("commit_sha", sa.Text, nullable=False),
    sa.Column("trust", sa.Text, nullable=False),
    sa.Column("nonce_standing", sa.Text, nullable=False),
    sa.Column("received_at_utc", Moment, nullable=False),
    sa.Column("summary", sa.Text, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
)
nonces: Final = sa.Table(
    "nonces",
    METADATA,
    sa.Column("nonce", sa.Text, primary_key=True),
    sa.Column("repository", sa.Text, nullable=False),
    sa.Column("pull_request", sa.Integer, nullable=False),
    sa.Column("commit_sha", sa.Text, nullable=False),
    sa.Column("plan_sha256", sa.Text, nullable=False),
    sa.Column("issued_at_utc", Moment, nullable=False),
    sa.Column("expires_at_utc", Moment, nullable=False),
    sa.Column("signer", sa.Text),
)
nonce_uses: Final = sa.Table(
    "nonce_uses",
    METADATA,
    sa.Column("nonce", sa.Text, primary_key=True),
    sa.Column("bundle_sha256", sa.Text, nullable=False),
)
blobs: Final = sa.Table(
    "blobs",
    METADATA,
    sa.Column("sha256", sa.Text, primary_key=True),
    sa.Column("seen_at_utc", Moment, nullable=False),
)
uploads: Final = sa.Table(
    "uploads",
    METADATA,
    sa.Column("upload_id", sa.Text, primary_key=True),
    sa.Column("blob_sha256", sa.Text, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("part_size_bytes", sa.BigInteger, nullable=False),
    sa.Column("opened_at_utc", Moment, nullable=False),
    sa.Column("expires_at_utc", Moment, nullable=False),
)
upload_parts: Final = sa.Table(
    "upload_parts",
    METADATA,
    sa.Column("upload_id", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("part_sha256", sa.Text, nullable=False),
)
listings: Final = sa.Table(
    "listings",
    METADATA,
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("bundle_sha256", sa.Text, nullable=False, unique=True),
    sa.Column("repository_key", sa.Text, nullable=False),
    sa.Column("pull_request", sa.Integer, nullable=False),
    sa.Column("commit_sha", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("tier", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("plan_sha256", sa.Text, nullable=False),
    sa.Column("signer", sa.Text, nullable=False),
    sa.Column("space", sa.Text, nullable=False),
    sa.Column("trust", sa.Text, nullable=False),
    sa.Column("identity", sa.Text),
    sa.Column("organisation", sa.Text),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
)
attributions: Final = sa.Table(
    "attributions",
    METADATA,
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("bundle_sha256", sa.Text, nullable=False),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("organisation", sa.Text),
    sa.Column("trust", sa.Text, nullable=False),
    sa.Column("at_utc", Moment, nullable=False),
)
witnesses: Final = sa.Table(
    "witnesses",
    METADATA,
    sa.Column("bundle_sha256", sa.Text, primary_key=True),
    sa.Column("witness_sha256", sa.Text, primary_key=True),
    sa.Column("at_utc", Moment, nullable=False),
)
tokens: Final = sa.Table(
    "tokens",
    METADATA,
    sa.Column("token_id", sa.Text, primary_key=True),
    sa.Column("secret_sha256", sa.Text, nullable=False),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("organisation", sa.Text),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("created_at_utc", Moment, nullable=False),
    sa.Column("expires_at_utc", Moment, nullable=False),
    sa.Column("revoked_at_utc", Moment),
)
bans: Final = sa.Table(
    "bans",
    METADATA,
    sa.Column("banned", sa.Text, primary_key=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at_utc", Moment, nullable=False),
)
acts: Final = sa.Table(
    "acts",
    METADATA,
    sa.Column("sequence", sa.BigInteger, primary_key=True),
    sa.Column("at_utc", Moment, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
)
outbox: Final = sa.Table(
    "outbox",
    METADATA,
    sa.Column("repository_key", sa.Text, primary_key=True),
    sa.Column("pull_request", sa.Integer, primary_key=True),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("due_at_utc", Moment, nullable=False),
    sa.Column("problem", sa.Text),
)
pulls: Final = sa.Table(
    "pulls",
    METADATA,
    sa.Column("repository_key", sa.Text, primary_key=True),
    sa.Column("pull_request", sa.Integer, primary_key=True),
    sa.Column("head_sha", sa.Text, nullable=False),
    sa.Column("is_open", sa.Integer, nullable=False),
    sa.Column("told_sha256", sa.Text, nullable=False),
    sa.Column("checked_at_utc", Moment, nullable=False),
)
deliveries: Final = sa.Table(
    "deliveries",
    METADATA,
    sa.Column("guid", sa.Text, primary_key=True),
    sa.Column("received_at_utc", Moment, nullable=False),
)
wanted: Final = sa.Table(
    "wanted",
    METADATA,
    sa.Column("wanted_id", sa.Text, primary_key=True),
    sa.Column("repository", sa.Text, nullable=False),
    sa.Column("pull_request", sa.Integer, nullable=False),
    sa.Column("commit_sha", sa.Text, nullable=False),
    sa.Column("tier", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("cell_id", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("asked_by", sa.Text, nullable=False),
    sa.Column("asked_at_utc", Moment, nullable=False),
    sa.Column("claimed_by", sa.Text),
    sa.Column("claimed_until_utc", Moment),
    sa.Column("closed_at_utc", Moment),
)
