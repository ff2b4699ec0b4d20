"""A server process that a test started: ready before it is used, gone after."""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["Child", "free_port", "program"]

_READY_S = 60.0
_POLL_S = 0.05


class Child:
    """A process in a session of its own, whose words go to a file."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = [str(word) for word in command]
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait until it is ready.

        Raises:
            RuntimeError: It ended, or was not ready in time.
        """
        deadline = time.monotonic() + _READY_S
        while not ready():
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.kill()
                words = self._log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"Expected {self._command[0]} to be ready, found: {words}")
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(30)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to stop, and wait for it."""
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()


def free_port(beside: int = 0) -> int:
    """A port of the loopback address that nothing listens on.

    Args:
        beside: When not 0, the port this much above is free, too.
    """
    for _ in range(200):
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                if beside:
                    other.bind(("127.0.0.1", port + beside))
            except (OSError, OverflowError):
                continue
            return port
    raise RuntimeError("Expected a free port on the loopback address, found none in 200 tries.")


def program(name: str, environment: str = "services") -> Path:
    """A program of an environment that `make test-env` installs."""
    root = Path(__file__).resolve().parents[4]
    path = root / ".k3eval" / "env" / environment / "bin" / name
    if not path.exists():
        raise RuntimeError(f"Expected {path}, found nothing. Run: make test-env")
    return path
