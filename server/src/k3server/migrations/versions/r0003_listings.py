"""What lists show of a submission, who vouches for it, and what was decided about it."""

from k3server.migrations.script import run_script

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables of listings, accounts and decisions."""
    run_script("0003_listings")
