"""Evidence that is wanted, and who said that they will bring it."""

from k3server.migrations.script import run_script

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table of the board."""
    run_script("0005_board")
