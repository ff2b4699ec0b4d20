"""A PostgreSQL cluster of its own in a temporary folder, from the machine's programs."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg
import sqlalchemy as sa

from k3server_testing.services.child import Child, free_port

__all__ = ["PASSWORD", "PostgresqlServer"]

PASSWORD: Final = "k3-test-password"  # noqa: S105
"""Of the user `k3`; the cluster lives as long as the tests and listens on loopback only."""

_USER: Final = "k3"
_SERVER_USER: Final = "postgres"


class PostgresqlServer:
    """A cluster; each database in it is made for one test."""

    def __init__(self) -> None:
        """Make the cluster and start it."""
        self._folder = Path(tempfile.mkdtemp(prefix="k3-postgresql-"))
        # PostgreSQL refuses to run as root, so its own user must reach the folder.
        self._folder.chmod(0o755)
        (self._folder / "password").write_text(PASSWORD)
        if os.getuid() == 0:
            shutil.chown(self._folder, _SERVER_USER, _SERVER_USER)
            shutil.chown(self._folder / "password", _SERVER_USER)
        self.port = free_port()
        self._databases = 0
        _run(
            "initdb",
            *("-D", self._data, "-A", "scram-sha-256", "-U", _USER, "-E", "UTF8"),
            *("--locale=C.UTF-8", f"--pwfile={self._folder / 'password'}", "--no-sync"),
        )
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.stop(signal.SIGINT)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._child = Child(
            _as_server_user(
                "postgres",
                *("-D", self._data, "-p", self.port, "-k", self._folder),
                *("-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"),
            ),
            self._folder / "log",
        )
        self._child.wait_until(self._answers)

    def crash(self) -> None:
        """End the server at once, as a power cut would; connections are lost."""
        pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, signal.SIGQUIT)
        self._child.stop()

    def new_database(self) -> sa.URL:
        """Make an empty database."""
        self._databases += 1
        name = f"k3_test_{self._databases}"
        with self._connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return sa.URL.create(
            "postgresql+psycopg",
            username=_USER,
            password=PASSWORD,
            host="127.0.0.1",
            port=self.port,
            database=name,
        )

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=_USER,
            password=PASSWORD,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1), self._connect():
                return True
        except (OSError, psycopg.OperationalError):
            return False


def _run(name: str, *arguments: str | Path | int) -> None:
    command = _as_server_user(name, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        raise RuntimeError(f"Expected {name} to succeed, found: {done.stdout}{done.stderr}")


def _as_server_user(name: str, *arguments: str | Path | int) -> list[str]:
    words = [str(_program(name)), *(str(word) for word in arguments)]
    if os.getuid() == 0:
        as_user = (f"--reuid={_SERVER_USER}", f"--regid={_SERVER_USER}", "--clear-groups")
        return ["setpriv", *as_user, "--", *words]
    return words


def _program(name: str) -> Path:
    """Debian keeps the server's programs out of PATH, in a folder per version."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    on_path = shutil.which(name)
    if not found and on_path is None:
        raise RuntimeError(
            f"Expected PostgreSQL's {name}, found none. On Debian: apt-get install postgresql"
        )
    return found[-1] if found else Path(str(on_path))
