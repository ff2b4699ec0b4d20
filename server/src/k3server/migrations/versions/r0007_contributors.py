"""Nonces say for whose key they were issued, and bad ones lower the trust."""

from k3server.migrations.script import run_script

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column, and lower what was counted too high."""
    run_script("0007_contributors")
