"""`make serve-full`: PostgreSQL, an object store, the registry and a proxy, in the foreground.

Data and passwords stay in one folder from start to start. When one of the four ends, all end.
"""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from k3house.child import tool_environment
from k3house.place import HOUSE, LOG, env_script
from k3house.problem import HouseError
from k3house.registry import registry_answers
from k3house.services import (
    BUCKET,
    DATABASE,
    USER,
    Secrets,
    caddy_file,
    check_programs,
    database_answers,
    free_port,
    make_cluster,
    postgresql_command,
    proxy_command,
    read_secrets,
    store_answers,
    store_command,
)

__all__ = ["FULL_DATA", "serve_full"]

FULL_DATA = HOUSE / "full"
_HOST = "127.0.0.1"
_READY_S = 60.0
_POLL_S = 0.1
_STOP_S = 20.0
_GRPC_OFFSET = 10_000


def serve_full(port: int, folder: Path = FULL_DATA) -> int:
    """Run the four until Ctrl-C or SIGTERM.

    Args:
        port: Port of the proxy on loopback.
        folder: Where data and passwords stay.

    Raises:
        HouseError: One of them did not become ready, or ended.
    """
    check_programs()
    folder.mkdir(parents=True, exist_ok=True)
    LOG.mkdir(parents=True, exist_ok=True)
    keys = read_secrets(folder)
    make_cluster(folder / "postgresql", keys.database)
    with ExitStack() as stack:
        running = _start(stack, folder, port, keys)
        sys.stdout.write(f"ready http://{_HOST}:{port}\n")
        sys.stdout.flush()
        _watch(running)
    return 0


def _start(
    stack: ExitStack, folder: Path, port: int, keys: Secrets
) -> dict[str, subprocess.Popen[bytes]]:
    running: dict[str, subprocess.Popen[bytes]] = {}

    def begin(
        name: str,
        command: Sequence[str | Path],
        ready: Callable[[], bool],
        *,
        number: signal.Signals = signal.SIGTERM,
        more: Mapping[str, str] | None = None,
    ) -> None:
        context = _child(name, command, more or {}, number)
        running[name] = stack.enter_context(context)
        _wait_ready(name, running[name], ready)

    database, store, inner = free_port(), free_port(_GRPC_OFFSET), free_port()
    begin(
        "postgresql",
        postgresql_command(folder / "postgresql", database),
        lambda: database_answers(database),
        # Fast shut-down: connections are ended, transactions rolled back, the log is written.
        number=signal.SIGINT,
    )
    begin(
        "object-store",
        store_command(folder / "store", store, keys),
        lambda: store_answers(store),
        # It takes 17 s to stop when it is asked, and keeps what it acknowledged anyway.
        number=signal.SIGKILL,
    )
    begin(
        "registry-full",
        _registry_command(folder, database, store, inner, f"http://{_HOST}:{port}"),
        lambda: registry_answers(inner),
        more={
            "PGPASSWORD": keys.database,
            "AWS_ACCESS_KEY_ID": keys.access_key,
            "AWS_SECRET_ACCESS_KEY": keys.secret_key,
            "AWS_EC2_METADATA_DISABLED": "true",
        },
    )
    config = folder / "Caddyfile"
    config.write_text(caddy_file(port, inner))
    own = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    begin("proxy", proxy_command(config), lambda: registry_answers(port), more=own)
    return running


def _registry_command(
    folder: Path, database: int, store: int, inner: int, address: str
) -> list[str | Path]:
    return [
        *(env_script("registry-full", "k3-registry"), "serve", "--data", folder / "registry"),
        *("--host", _HOST, "--port", str(inner), "--public-url", address, "--behind-proxy"),
        *("--database", f"postgresql://{USER}@{_HOST}:{database}/{DATABASE}"),
        *("--s3-bucket", BUCKET, "--s3-create-bucket"),
        *("--s3-endpoint", f"http://{_HOST}:{store}"),
        *("--s3-public-endpoint", f"http://{_HOST}:{store}"),
    ]


@contextmanager
def _child(
    name: str, command: Sequence[str | Path], more: Mapping[str, str], number: signal.Signals
) -> Iterator[subprocess.Popen[bytes]]:
    with (LOG / f"{name}.log").open("ab") as output:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=tool_environment() | dict(more),
            cwd="/",
            # Ctrl-C goes to this process, which then ends the four in order.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(name: str, process: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise _ended(name)
        time.sleep(_POLL_S)


def _watch(running: Mapping[str, subprocess.Popen[bytes]]) -> None:
    while True:
        for name, process in running.items():
            if process.poll() is not None:
                raise _ended(name)
        time.sleep(_POLL_S * 5)


def _ended(name: str) -> HouseError:
    log = LOG / f"{name}.log"
    last = log.read_text(errors="replace").splitlines()[-1:]
    return HouseError(
        f"The {name} of the full stack is not running: {last[0] if last else 'it said nothing'}",
        f"see {log}; then run the same command again.",
    )
