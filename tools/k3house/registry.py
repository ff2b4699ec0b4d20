"""The registry as a child process on loopback, or the one that already answers there."""

import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from k3house.child import tool_environment
from k3house.place import LOG, REGISTRY_DATA, env_script
from k3house.problem import HouseError

__all__ = ["check_port", "check_registry", "registry_answers", "running_registry", "serve"]

_HOST = "127.0.0.1"
_TITLE = "k3-eval registry"
_DESCRIPTION_BYTES = 4 << 20
_READY_S = 60.0
_STOP_S = 15.0
_ASK_S = 3.0


def registry_answers(port: int) -> bool:
    """Whether one of our registries answers on the port.

    What answers must describe itself as ours: another program that listens there must not be sent
    evidence.
    """
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{_HOST}:{port}/api/v1/openapi.json", timeout=_ASK_S) as response:
            answer = json.loads(response.read(_DESCRIPTION_BYTES))
        return bool(answer["info"]["title"] == _TITLE)
    except (OSError, ValueError, HTTPException, KeyError, TypeError):
        return False


def check_registry(port: int, data: Path = REGISTRY_DATA) -> bool:
    """Whether the registry of this repository answers on the port already.

    Args:
        port: Port on loopback.
        data: Where this repository's registry keeps its data.

    Returns:
        True when it answers, False when the port is free for it.

    Raises:
        HouseError: Another program has the port, or a registry that keeps its data elsewhere, so
            that `make serve` here would never show what was sent to it.
    """
    if not registry_answers(port):
        check_port(port)
        return False
    if not _in_use(data):
        raise HouseError(
            f"Port {port} on {_HOST} belongs to a registry that does not keep its data in {data}.",
            f"stop that one, or choose another port: REGISTRY_PORT={port + 1}",
        )
    return True


def _in_use(data: Path) -> bool:
    """Whether a registry holds the lock that it keeps on its data while it runs."""
    try:
        with (data / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def check_port(port: int) -> None:
    """Refuse a port that something else uses, before time is spent on a run.

    Raises:
        HouseError: The port cannot be listened on.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise HouseError(
                f"Port {port} on {_HOST} cannot be used for the registry: {error.strerror}.",
                f"stop what listens there, or choose another port: REGISTRY_PORT={port + 1}",
            ) from None


def _command(port: int) -> list[str]:
    return [
        *(str(env_script("registry", "k3-registry")), "serve"),
        *("--data", str(REGISTRY_DATA), "--host", _HOST, "--port", str(port)),
    ]


def serve(port: int) -> int:
    """Become the registry, in the foreground, until Ctrl-C."""
    command = _command(port)
    os.execvpe(command[0], command, tool_environment())


@contextmanager
def running_registry(port: int, *, keep: bool) -> Iterator[str]:
    """The address of a registry that answers.

    Args:
        port: Port on loopback.
        keep: Leave a registry that was started here running.

    Raises:
        HouseError: It did not become ready, or the port belongs to something else.
    """
    address = f"http://{_HOST}:{port}"
    if check_registry(port):
        yield address
        return
    LOG.mkdir(parents=True, exist_ok=True)
    log = LOG / "registry.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            _command(port),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            env=tool_environment(),
            start_new_session=True,
        )
    kept = False
    try:
        _wait_ready(process, log)
        yield address
        kept = keep
    finally:
        if not kept:
            _stop(process)


def _wait_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.stdout is None:
        raise TypeError("the registry's stdout is read here, so it must be a pipe")
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            if selector.select(timeout=1.0):
                if process.stdout.readline().startswith(b"ready "):
                    return
                break
    _stop(process)
    last = log.read_text(errors="replace").splitlines()[-1:]
    raise HouseError(
        f"The registry did not start: {last[0] if last else 'it said nothing'}",
        f"see {log}; then run the same command again.",
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(signal_number)
        try:
            process.wait(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            continue
