"""Brings a database to the current schema, forward only."""

import re
from importlib import resources
from typing import Final

import sqlalchemy as sa

from k3server.errors import MachineError

__all__ = ["SCHEMA_VERSION", "upgrade"]

_REVISION: Final = re.compile(r"^r(\d{4})_[a-z_]+\.py$")
_LOCK: Final = 0x6B332D72
"""Name of the advisory lock that keeps two registries from migrating at once."""


def _newest() -> int:
    """The newest revision, from the names of the files: alembic itself takes long to import."""
    folder = resources.files("k3server") / "migrations" / "versions"
    found = [_REVISION.match(entry.name) for entry in folder.iterdir()]
    return max(int(match[1]) for match in found if match)


SCHEMA_VERSION: Final = _newest()
"""Version of a database that every migration was applied to."""


def upgrade(connection: sa.Connection, *, target: int = SCHEMA_VERSION) -> None:
    """Apply the migrations that are missing, in the transaction that is open.

    Args:
        connection: A connection in a transaction that excludes other writers.
        target: Version to stop at; tests make older databases with it.

    Raises:
        MachineError: A newer registry wrote the database.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    version = _version(connection)
    if version > SCHEMA_VERSION:
        raise MachineError(
            f"The database has schema version {version}; "
            f"this registry knows versions up to {SCHEMA_VERSION}.",
            "Start the newer registry again, or give --data or --database another one.",
        )
    if version >= target:
        return
    _migrate(connection, version, target)
    if connection.dialect.name == "sqlite":
        # So that the first release, which reads this field, refuses what it does not know.
        connection.exec_driver_sql(f"PRAGMA user_version = {target}")


def _migrate(connection: sa.Connection, version: int, target: int) -> None:
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(resources.files("k3server") / "migrations"))
    # The folder may have a blank in its name.
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    if version and not sa.inspect(connection).has_table("alembic_version"):
        # The first release counted versions in SQLite's own field only.
        command.stamp(config, f"{version:04d}")
    command.upgrade(config, f"{target:04d}")


def _version(connection: sa.Connection) -> int:
    if connection.dialect.name == "sqlite":
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if not sa.inspect(connection).has_table("alembic_version"):
        return 0
    return int(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one())
