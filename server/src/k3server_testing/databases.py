"""Databases for tests: quickly, because each is a copy of one that was migrated once."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

from k3server.adapters.sql.database import Database

__all__ = ["sqlite_database"]


def sqlite_database(folder: Path | None = None) -> Database:
    """A database of the current schema without rows.

    Args:
        folder: Where its file goes; a folder that is removed with the process by default.
    """
    if folder is None:
        folder = Path(tempfile.mkdtemp(dir=_folder().name))
    path = folder / "registry.sqlite3"
    shutil.copyfile(_template(), path)
    return Database.in_file(path)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="k3-registry-test-")


@cache
def _template() -> Path:
    path = Path(_folder().name) / "template.sqlite3"
    Database.in_file(path).close()
    return path
