"""`k3-registry serve`: answers requests until stopped.

Words go to stderr; stdout carries one line, `ready ADDRESS`, once requests are answered.
"""

import argparse
import errno
import fcntl
import gc
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import uvicorn

from k3server.adapters.child_verifier import ChildVerifier
from k3server.adapters.filesystem_store import FilesystemStore
from k3server.adapters.forge_keys import ForgeKeys, NoKeys
from k3server.adapters.sql.everything import parts_on
from k3server.adapters.system_clock import SystemClock
from k3server.app import create_app
from k3server.caretaker import Caretaker
from k3server.commands.github_flags import (
    add_github_flags,
    forge_of,
    issuer_of,
    teller_of,
)
from k3server.commands.storage import add_storage_flags, database_of, folder_error, store_of
from k3server.errors import MachineError
from k3server.exit_code import ExitCode
from k3server.http_guard import guarded_protocol
from k3server.published_images import read_published_images
from k3server.settings import Settings

__all__ = ["add_flags", "run"]

_SIGNER: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
_MIB: Final = 1024 * 1024
_GRACE_S: Final = 10
_MAX_PORT: Final = 65535
_BACKLOG: Final = 512
_COLLECTED_EVERY: Final = (20_000, 50, 100)
"""Objects until a look at the newest, such looks until one at older ones, and those until all."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `serve`."""
    add_storage_flags(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--port", type=_port, default=8765, help="port to listen on, 0 for any (%(default)s)"
    )
    parser.add_argument(
        "--public-url", help="address that contributors use, where a proxy is in front"
    )
    parser.add_argument(
        "--known-signer",
        type=_signer,
        action="append",
        default=[],
        metavar="SHA256:...",
        help="fingerprint of a key whose owner you know; its submissions read `signed`",
    )
    parser.add_argument(
        "--published-images",
        type=Path,
        metavar="FILE",
        help="images that are known here, one a line, as `make image` leaves them",
    )
    parser.add_argument(
        "--behind-proxy",
        action="store_true",
        help="take the client's address from the last entry of X-Forwarded-For",
    )
    add_github_flags(parser)
    parser.add_argument(
        "--max-archive-mib",
        type=_mib,
        default=2048,
        help="largest archive that is received, in MiB (%(default)s)",
    )
    parser.add_argument(
        "--max-content-mib",
        type=_mib,
        default=512,
        help="most that the files inside an archive may be together, in MiB (%(default)s)",
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MAX_PORT):
        raise argparse.ArgumentTypeError(f"expected a port from 0 to {_MAX_PORT}, found {text!a}")
    return int(text)


def _mib(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _MIB):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {_MIB}, found {text!a}")
    return int(text)


def _signer(text: str) -> str:
    if not _SIGNER.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"expected SHA256: and 43 characters as `ssh-keygen -lf KEY.pub` prints, found {text!a}"
        )
    return text


def run(chosen: argparse.Namespace) -> int:
    """Answer requests until asked to stop."""
    with _locked(chosen.data), closing(_listen(chosen.host, chosen.port)) as listener:
        settings = _settings(chosen, listener.getsockname()[1])
        with database_of(chosen) as database:
            forge = forge_of(chosen)
            parts = parts_on(
                database,
                store_of(chosen),
                keys=NoKeys() if forge is None else ForgeKeys(forge),
                verifier=ChildVerifier(settings),
                clock=SystemClock(),
                tells=bool(chosen.github_repository),
                issuer=issuer_of(chosen),
            )
            if isinstance(parts.store, FilesystemStore):
                parts.store.clear_incoming()
            config = uvicorn.Config(
                create_app(settings, parts),
                http=guarded_protocol(settings.header_timeout_s),
                # Another loop that is installed would read 256 KB ahead for every connection.
                loop="asyncio",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                # Who may say where a request comes from is this registry's own setting.
                proxy_headers=False,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=_GRACE_S,
                h11_max_incomplete_event_size=settings.max_header_bytes,
                backlog=_BACKLOG,
            )
            # uvicorn raises the signal again once it has stopped; asked to stop is no failure.
            signal.signal(signal.SIGTERM, lambda *_: None)
            with Caretaker(settings, parts, teller_of(chosen, settings, parts, forge)):
                _spare_pauses()
                _Server(config, settings.public_url).run(sockets=[listener])
    return ExitCode.CLEAN


def _settings(chosen: argparse.Namespace, port: int) -> Settings:
    host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
    return Settings(
        public_url=(chosen.public_url or f"http://{host}:{port}").rstrip("/"),
        known_signers=frozenset(chosen.known_signer),
        published_images=(
            {}
            if chosen.published_images is None
            else read_published_images(chosen.published_images)
        ),
        behind_proxy=chosen.behind_proxy,
        webhook_secret=os.environ.get("GITHUB_WEBHOOK_SECRET", "").encode(),
        max_archive_bytes=chosen.max_archive_mib * _MIB,
        max_content_bytes=chosen.max_content_mib * _MIB,
    )


class _Server(uvicorn.Server):
    """Says on stdout when it is ready."""

    def __init__(self, config: uvicorn.Config, address: str) -> None:
        super().__init__(config)
        self._address = address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then print the one line of stdout."""
        await super().startup(sockets)
        if self.started:
            # What is there now stays: looking through it again and again would delay answers.
            gc.collect()
            gc.freeze()
            sys.stdout.write(f"ready {self._address}\n")
            sys.stdout.flush()


@contextmanager
def _locked(data: Path) -> Iterator[None]:
    """Make the data folder and keep every other registry out of it."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise folder_error(data, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise MachineError(
            f"Expected the folder {data} to be free, found another registry at work in it.",
            "Stop that one, or give --data another folder.",
        ) from None
    try:
        yield
    except PermissionError as error:
        raise folder_error(data, error) from None
    finally:
        os.close(descriptor)


def _spare_pauses() -> None:
    """Have the collector of cycles pass over what stays, and look at the rest less often.

    A page of fifty rows makes enough objects for several looks; one through the whole application
    took 40 ms, which was the slowest hundredth of the pages.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_EVERY)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named, because asyncio switches Nagle's algorithm off only where it is: else
    # the end of an answer would wait 40 ms for the client's word that the beginning came.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
