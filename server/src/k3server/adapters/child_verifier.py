"""Runs the verifier in a process of its own, with limits, and reads its answer."""

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from k3bundle.record import Record
from k3bundle.subject import ChangeUnderTest
from k3server.document import SubmissionDocument
from k3server.errors import ProblemFinding
from k3server.ports import Refused, Verification, Verified
from k3server.settings import Settings
from k3server.verify_child import OUT_OF_MEMORY

__all__ = ["ChildVerifier"]

_LOG: Final = logging.getLogger("k3server.verifier")
_MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
_MAX_WORDS_BYTES: Final = 64 * 1024
_TOO_MUCH: Final = "A bundle of a standard tier verifies in seconds; run `k3-eval verify` on it."
_DEFECT: Final = "Run `k3-eval verify` on the bundle; if that is content, report a defect."
_ENVIRONMENT: Final = {
    "LANG": "C.UTF-8",
    # One thread each: a pool of threads would only reserve address space that the limit counts.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


class _Answer(Record):
    findings: tuple[dict[str, str], ...]
    document: SubmissionDocument | None


_ANSWER: Final = TypeAdapter(_Answer)


class ChildVerifier:
    """A `Verifier` that starts `python -m k3server.verify_child` for each archive."""

    def __init__(self, settings: Settings, *, python: str = sys.executable) -> None:
        """Keep the limits.

        Args:
            settings: Where the limits come from.
            python: The interpreter to run it with; tests give programs that misbehave.
        """
        self._settings = settings
        self._python = python

    async def verify(self, archive: Path, change: ChangeUnderTest) -> Verification:
        """Judge the archive; a crash or a limit that is reached is a refusal, too."""
        answer = await self._answer(
            archive,
            f"--repository={change.repository}",
            f"--pull-request={change.pull_request}",
            f"--commit={change.commit_sha}",
        )
        if isinstance(answer, Refused):
            return answer
        if answer.findings:
            return Refused("The bundle was refused", _findings(answer))
        if answer.document is not None:
            return Verified(answer.document)
        return _unjudged(
            "verification-crashed",
            "Expected findings or a document from the verifier, found neither.",
            _DEFECT,
        )

    async def secrets(self, archive: Path) -> tuple[ProblemFinding, ...]:
        """Secrets in the archive, or the reason why it could not be looked into."""
        answer = await self._answer(archive, "--secrets-only")
        return answer.findings if isinstance(answer, Refused) else _findings(answer)

    async def _answer(self, archive: Path, *words: str) -> _Answer | Refused:
        process = await asyncio.create_subprocess_exec(
            *self._command(archive, *words),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=_ENVIRONMENT,
            cwd="/",
            # Ctrl-C in a terminal goes to the registry, which then ends its children itself.
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._settings.verify_wall_s):
                answer, said = await asyncio.gather(
                    _read_capped(process.stdout, _MAX_ANSWER_BYTES),
                    _read_capped(process.stderr, _MAX_WORDS_BYTES),
                )
                status = await process.wait()
        except TimeoutError:
            return _unjudged(
                "verification-timeout",
                f"Expected the verifier to finish within {self._settings.verify_wall_s:g} s, "
                "found it still at work.",
                _TOO_MUCH,
            )
        finally:
            await _end(process)
        return self._interpret(status, answer, said)

    def _command(self, archive: Path, *words: str) -> tuple[str, ...]:
        return (
            self._python,
            "-I",
            "-m",
            "k3server.verify_child",
            str(archive.resolve()),
            *words,
            f"--parent-pid={os.getpid()}",
            f"--cpu-s={self._settings.verify_cpu_s}",
            f"--memory-bytes={self._settings.verify_memory_bytes}",
            f"--archive-bytes={self._settings.max_archive_bytes}",
            f"--content-bytes={self._settings.max_content_bytes}",
        )

    def _interpret(
        self, status: int, answer: bytes | None, words: bytes | None
    ) -> _Answer | Refused:
        if status == -signal.SIGXCPU:
            why = f"Expected at most {self._settings.verify_cpu_s} s of CPU time, found more."
            return _unjudged("verification-timeout", why, _TOO_MUCH)
        if status == OUT_OF_MEMORY:
            limit_mib = self._settings.verify_memory_bytes // 2**20
            why = f"Expected the verifier to need at most {limit_mib} MiB of memory, found more."
            return _unjudged("verification-memory", why, _TOO_MUCH)
        if status != 0 or answer is None:
            _LOG.error("verifier ended with status %d: %r", status, (words or b"")[-2000:])
            how = f"signal {-status}" if status < 0 else f"status {status}"
            return _unjudged(
                "verification-crashed",
                f"Expected an answer from the verifier, found that it ended with {how}.",
                _DEFECT,
            )
        return _read_answer(answer)


def _read_answer(answer: bytes) -> _Answer | Refused:
    try:
        read = _ANSWER.validate_json(answer)
        _findings(read)
    except (ValidationError, TypeError) as error:
        _LOG.error("verifier's answer cannot be read: %s", error)
        return _unjudged(
            "verification-crashed",
            "Expected an answer from the verifier, found something else.",
            _DEFECT,
        )
    return read


def _findings(answer: _Answer) -> tuple[ProblemFinding, ...]:
    return tuple(ProblemFinding(**each) for each in answer.findings)


def _unjudged(code: str, why: str, hint: str) -> Refused:
    finding = ProblemFinding(code=code, where="archive", why=why, hint=hint)
    return Refused("The bundle could not be judged", (finding,))


async def _read_capped(stream: asyncio.StreamReader | None, limit: int) -> bytes | None:
    """Read to the end; None when there was more than `limit` bytes."""
    if stream is None:
        raise LookupError("Expected a pipe from the verifier.")
    pieces: list[bytes] = []
    size = 0
    while piece := await stream.read(65536):
        size += len(piece)
        if size <= limit:
            pieces.append(piece)
    return b"".join(pieces) if size <= limit else None


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()
