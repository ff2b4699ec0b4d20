"""Indexes for what pages and the search ask for."""

from k3server.migrations.script import run_script

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the indexes."""
    run_script("0006_pages")
