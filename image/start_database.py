#!/usr/bin/python3 -I
"""Starts the database of compose.yaml; the password comes from the environment.

At the first start the cluster is made in /results/database.
"""

import os
import subprocess
import sys
from pathlib import Path

DATA = Path("/results/database")
USER = "k3"
VARIABLE = "POSTGRES_PASSWORD"
ACCESS = "host all all all scram-sha-256\n"
EXIT_ENVIRONMENT = 5


def main() -> None:
    """Make the cluster where there is none, and become the server."""
    programs = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"))[::-1]))
    if not (DATA / "PG_VERSION").is_file():
        password = os.environ.get(VARIABLE)
        if not password:
            sys.stderr.write(f"start-database: {VARIABLE} must be set for the first start.\n")
            sys.exit(EXIT_ENVIRONMENT)
        _make(programs / "initdb", password)
    os.environ.pop(VARIABLE, None)
    server = str(programs / "postgres")
    os.execv(server, [server, "-D", str(DATA), "-k", "/tmp", "-c", "listen_addresses=*"])  # noqa: S108


def _make(initdb: Path, password: str) -> None:
    file = Path("/tmp/password")  # noqa: S108
    file.touch(mode=0o600)
    file.write_text(password)
    try:
        subprocess.run(
            [
                *(initdb, "-D", DATA, "-A", "scram-sha-256", "-U", USER, "-E", "UTF8"),
                *("--locale=C.UTF-8", f"--pwfile={file}"),
            ],
            check=True,
        )
    finally:
        file.unlink()
    with (DATA / "pg_hba.conf").open("a") as access:
        access.write(ACCESS)


if __name__ == "__main__":
    main()
