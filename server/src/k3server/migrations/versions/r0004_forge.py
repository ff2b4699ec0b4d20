"""What the forge is still to be told, what it said, and which of its deliveries came."""

from k3server.migrations.script import run_script

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the tables of the forge."""
    run_script("0004_forge")
