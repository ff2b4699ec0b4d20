"""`python -m k3server.openapi_export FILE`: writes the description of the API, or compares it."""

import argparse
import json
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from k3server.adapters.child_verifier import ChildVerifier
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.forge_keys import NoKeys
from k3server.adapters.sql.database import Database
from k3server.adapters.sql.everything import parts_on
from k3server.adapters.system_clock import SystemClock
from k3server.app import create_app
from k3server.settings import Settings

__all__ = ["description", "main"]


def description() -> str:
    """The description of the API as JSON text, the same each time."""
    settings = Settings(public_url="http://127.0.0.1:8765")
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Database.in_file(Path(folder) / "index.sqlite3")) as database,
    ):
        parts = parts_on(
            database,
            FilesystemStore(Path(folder) / "blobs"),
            keys=NoKeys(),
            verifier=ChildVerifier(settings),
            clock=SystemClock(),
        )
        found = create_app(settings, parts).openapi()
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or compare.

    Returns:
        Exit status: 1 when the file is not what the routes say.
    """
    parser = argparse.ArgumentParser(prog="python -m k3server.openapi_export", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    chosen = parser.parse_args(arguments)
    text = description()
    if not chosen.check:
        chosen.file.write_text(text, encoding="utf-8")
        return 0
    if chosen.file.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{chosen.file} is not what the routes say. Next: make schema\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
