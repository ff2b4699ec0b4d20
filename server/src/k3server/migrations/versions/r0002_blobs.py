"""When each archive was last wanted, and uploads in parts."""

from k3server.migrations.script import run_script

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables of archives and uploads."""
    run_script("0002_blobs")
