"""A real registry in a process of its own, to be killed at bad moments."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import httpx

__all__ = ["RegistryProcess", "memory_bytes"]


def memory_bytes(pid: int, kind: Literal["VmRSS", "VmHWM"]) -> int:
    """Memory of a process now (`VmRSS`), or the most it ever had (`VmHWM`).

    Raises:
        LookupError: It has ended.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"Expected {kind} in the status of process {pid}, found none.")


class RegistryProcess:
    """`k3-registry serve` on a free port of the loopback address."""

    def __init__(self, data: Path, *arguments: str, command: tuple[str, ...] = ()) -> None:
        """Start it and wait until it says that it is ready.

        Args:
            data: The data folder.
            *arguments: More arguments.
            command: What to run instead of `python -m k3server.cli`.
        """
        self._process = subprocess.Popen(
            [
                *(command or (sys.executable, "-m", "k3server.cli")),
                *("serve", f"--data={data}", "--port=0"),
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._process.stdout is None:
            raise LookupError("Expected a pipe for the registry's words.")
        line = self._process.stdout.readline()
        if not line.startswith("ready http://127.0.0.1:"):
            _, words = self._process.communicate(timeout=30)
            raise RuntimeError(f"Expected the registry to be ready, found {line!r}: {words}")
        self.url = line.split()[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate(timeout=30)

    @property
    def address(self) -> str:
        """`HOST:PORT` that it listens on."""
        return self.url.removeprefix("http://")

    @property
    def pid(self) -> int:
        """Identity of the process."""
        return self._process.pid

    def memory_bytes(self, kind: Literal["VmRSS", "VmHWM"]) -> int:
        """Its memory; see the function of this name."""
        return memory_bytes(self.pid, kind)

    def processor_s(self) -> float:
        """Processor time that it used so far, without its children."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def client(self) -> httpx.Client:
        """A client with patience for a busy machine."""
        return httpx.Client(base_url=self.url, timeout=120)

    def connect(self) -> socket.socket:
        """A bare connection, for requests that no client would send."""
        host, port = self.address.split(":")
        return socket.create_connection((host, int(port)), timeout=60)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.wait(30)

    def wait(self) -> int:
        """Wait for its end.

        Returns:
            The exit status, negative for a signal.
        """
        return self._process.wait(60)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Ask it to stop.

        Returns:
            Exit status, the rest of stdout, stderr.
        """
        self._process.send_signal(number)
        out, words = self._process.communicate(timeout=60)
        return self._process.returncode, out, words
