"""Submissions, nonces and their uses."""

from k3server.migrations.script import run_script

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the first tables."""
    run_script("0001_submissions")
