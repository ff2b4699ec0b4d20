"""The stand-in as a process of its own, and its state from outside."""

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

import httpx

__all__ = ["GithubProcess"]


class GithubProcess:
    """Runs while its context does."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "k3server_testing.github"], stdout=subprocess.PIPE, text=True
        )
        if self._process.stdout is None:
            raise LookupError("Expected a pipe for the stand-in's address.")
        self.url = self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate(timeout=10)

    def set(self, **values: Any) -> None:
        """Replaces parts of the state, by their names in `GithubState`."""
        httpx.put(f"{self.url}/_state", content=json.dumps(values)).raise_for_status()

    def fail(self, status: int, **more: Any) -> None:
        """Makes the next request fail, or as many as `times` says."""
        httpx.post(f"{self.url}/_fault", json={"status": status, **more}).raise_for_status()

    def state(self) -> dict[str, Any]:
        """Everything that the stand-in knows."""
        found: dict[str, Any] = httpx.get(f"{self.url}/_state").json()
        return found
