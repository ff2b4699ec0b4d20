"""One line of JSON each way between a process that times and one that holds another engine.

The child's own output goes to its error stream, so that only answers are lines of its output.
"""

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

__all__ = ["Answers", "Child", "ChildError"]


class ChildError(RuntimeError):
    """A child ended, was silent for too long, or answered with an error."""


class Child:
    """A process that is asked and answers."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], log: Path
    ) -> None:
        """Start it.

        Args:
            command: what to run.
            environment: added to this process's own.
            log: file for all that it prints beside its answers.
        """
        self._log = log
        with log.open("w") as stream:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                text=True,
                env={**os.environ, **environment},
            )
        self._questions = cast(TextIO, self._process.stdin)
        self._answers = cast(TextIO, self._process.stdout)

    def ask(self, **question: Any) -> None:
        """Send a question, without waiting for the answer."""
        try:
            self._questions.write(json.dumps(question) + "\n")
            self._questions.flush()
        except BrokenPipeError as error:
            raise ChildError(self._gone()) from error

    def answer(self, timeout_s: float) -> dict[str, Any]:
        """Wait for the next answer.

        Raises:
            ChildError: none came, or it is an error.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                raise ChildError(
                    f"expected an answer within {timeout_s:.0f} s, found none: see the end of "
                    f"{self._log}"
                )
        line = self._answers.readline()
        if not line:
            raise ChildError(self._gone())
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise ChildError(f"{found['error']}: see the end of {self._log}")
        return found

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait()
        self._answers.close()
        with suppress(BrokenPipeError):
            self._questions.close()

    def _gone(self) -> str:
        code = self._process.wait()
        return f"expected an answer, found that the process ended with {code}: see {self._log}"


class Answers:
    """The child's end."""

    def __init__(self) -> None:
        """Keep the output for answers; what else is printed goes to the error stream."""
        self._out: TextIO = os.fdopen(os.dup(sys.stdout.fileno()), "w")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def say(self, **answer: Any) -> None:
        """Send an answer."""
        self._out.write(json.dumps(answer) + "\n")
        self._out.flush()

    def questions(self) -> Iterator[dict[str, Any]]:
        """Questions until the other side closes; several places may take turns at it."""
        while line := sys.stdin.readline():
            yield json.loads(line)
