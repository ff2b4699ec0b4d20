"""`k3-registry`: starts the registry.

Words go to stderr; stdout carries one line, `ready ADDRESS`, once requests are answered.
"""

import argparse
import errno
import fcntl
import logging
import os
import re
import signal
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import uvicorn

from k3server.adapters.child_verifier import ChildVerifier
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.sqlite_index import SqliteIndex
from k3server.adapters.system_clock import SystemClock
from k3server.app import create_app
from k3server.errors import MachineError
from k3server.exit_code import ExitCode
from k3server.http_guard import guarded_protocol
from k3server.settings import Settings

__all__ = ["main"]

_EPILOG: Final = """\
examples:
  k3-registry serve --data .k3eval/registry
  k3-registry serve --data /srv/k3 --port 0        choose a free port and print it

exit status:
  0 stopped as asked, 2 wrong flag, 5 the machine lacks something (a free port, a writable folder),
  70 a defect of the registry, 130 stopped by Ctrl-C
"""
_SIGNER: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_GRACE_S: Final = 10
_MAX_PORT: Final = 65535
_BACKLOG: Final = 512


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Returns:
        Exit status, see `ExitCode`.
    """
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    try:
        return _serve(chosen)
    except MachineError as error:
        sys.stderr.write(f"k3-registry: {error}\n")
        return ExitCode.ENVIRONMENT
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="k3-registry",
        description="A registry of evidence: receives, verifies, stores and shows bundles.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="command", required=True)
    serve = commands.add_parser(
        "serve",
        help="answer requests until stopped",
        description="Answer requests until stopped by Ctrl-C or SIGTERM.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("--data", type=Path, required=True, help="folder of archives and index")
    serve.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    serve.add_argument(
        "--port", type=_port, default=8765, help="port to listen on, 0 for any (%(default)s)"
    )
    serve.add_argument(
        "--public-url", help="address that contributors use, where a proxy is in front"
    )
    serve.add_argument(
        "--known-signer",
        type=_signer,
        action="append",
        default=[],
        metavar="SHA256:...",
        help="fingerprint of a key whose owner you know; its submissions read `signed`",
    )
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MAX_PORT):
        raise argparse.ArgumentTypeError(f"expected a port from 0 to {_MAX_PORT}, found {text!a}")
    return int(text)


def _signer(text: str) -> str:
    if not _SIGNER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"expected SHA256: and 43 characters as `ssh-keygen -lf KEY.pub` prints, found {text!a}"
        )
    return text


def _serve(chosen: argparse.Namespace) -> int:
    with _locked(chosen.data), closing(_listen(chosen.host, chosen.port)) as listener:
        port = listener.getsockname()[1]
        host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
        settings = Settings(
            public_url=(chosen.public_url or f"http://{host}:{port}").rstrip("/"),
            known_signers=frozenset(chosen.known_signer),
        )
        with closing(_index(chosen.data)) as index:
            store = FilesystemStore(chosen.data / "blobs")
            app = create_app(settings, store, index, ChildVerifier(settings), SystemClock())
            config = uvicorn.Config(
                app,
                http=guarded_protocol(settings.header_timeout_s),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=_GRACE_S,
                h11_max_incomplete_event_size=settings.max_header_bytes,
                backlog=_BACKLOG,
            )
            # uvicorn raises the signal again once it has stopped; asked to stop is not a failure.
            signal.signal(signal.SIGTERM, lambda *_: None)
            _Server(config, settings.public_url).run(sockets=[listener])
    return ExitCode.CLEAN


class _Server(uvicorn.Server):
    """Says on stdout when it is ready."""

    def __init__(self, config: uvicorn.Config, address: str) -> None:
        super().__init__(config)
        self._address = address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then print the one line of stdout."""
        await super().startup(sockets)
        if self.started:
            sys.stdout.write(f"ready {self._address}\n")
            sys.stdout.flush()


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    """Make the data folder and keep every other registry out of it."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _folder_error(data, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise MachineError(
            f"Expected the folder {data} to be free, found another registry at work in it.",
            "Stop that one, or give --data another folder.",
        ) from None
    try:
        for name in ("blobs/incoming", "blobs/cas"):
            (data / name).mkdir(parents=True, exist_ok=True)
        yield
    except PermissionError as error:
        raise _folder_error(data, error) from None
    finally:
        os.close(descriptor)


def _folder_error(data: Path, error: OSError) -> MachineError:
    return MachineError(
        f"Expected to write in the folder {data}, found: {error.strerror or error}.",
        "Give --data a folder that you may write to, on a disk with room.",
    )


def _index(data: Path) -> SqliteIndex:
    try:
        return SqliteIndex(data / "registry.sqlite3")
    except sqlite3.Error as error:
        raise MachineError(
            f"Expected a database in {data / 'registry.sqlite3'}, found: {error}.",
            "Give --data a folder that you may write to, or put back a copy of the file.",
        ) from None


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise MachineError(
                f"Expected port {port} on {host} to be free, found it in use.",
                "Stop what uses it, or choose another one with --port, or any with --port 0.",
            ) from None
        raise MachineError(
            f"Expected to listen on {host} port {port}, found: {error.strerror or error}.",
            "Choose another address with --host or another port with --port.",
        ) from None
    return listener


if __name__ == "__main__":
    sys.exit(main())
