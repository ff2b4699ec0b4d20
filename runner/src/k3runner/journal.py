"""The append-only journal of a run: JSON lines that survive kill -9 at any moment.

A line counts once its newline is on disk. Boots, cells and attempts are synced line by line;
requests, coverage and counters before the line that says that their cell finished. What a record
holds of somebody else's words is cleaned before it is written.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from k3bundle import layout
from k3bundle.canonical import canonical_json
from k3bundle.coverage import CoverageSnapshot, EngineCounters
from k3bundle.graph_record import GraphEvent
from k3bundle.kernel_record import KernelLine
from k3bundle.record import Record
from k3bundle.request import RequestRecord
from k3bundle.run import (
    AttemptRecord,
    BootReady,
    BootStarted,
    BootStopped,
    CellAborted,
    CellFinished,
)
from k3bundle.separation import SeparationRecord
from k3bundle.telemetry import TelemetryLine
from k3runner.errors import MachineError
from k3runner.run_folder import sync_folder

__all__ = ["JOURNAL_FILES", "Journal", "mend", "read_lines"]

JOURNAL_FILES = (
    layout.ATTEMPTS,
    layout.BOOTS,
    layout.CELLS,
    layout.REQUESTS,
    layout.COVERAGE,
    layout.COUNTERS,
    layout.TELEMETRY,
    layout.GRAPHS,
    layout.KERNELS,
    layout.SEPARATION,
)
_RAW = (
    *(layout.REQUESTS, layout.COVERAGE, layout.COUNTERS, layout.TELEMETRY, layout.GRAPHS),
    layout.KERNELS,
)


class Journal:
    """Appends records to the files of a run folder. Use as a context manager."""

    def __init__(self, folder: Path, clean: Callable[[str, Record], Record]) -> None:
        """Opens all files for appending; `mend` must have been called on an old folder.

        Args:
            folder: Run folder.
            clean: Gets the name of a file and a record; returns the record as it may be written.
        """
        self._folder = folder
        self._clean = clean
        self._files: dict[str, BinaryIO] = {
            # Unbuffered: one record is one write, and nothing waits in this process.
            name: (folder / name).open("ab", buffering=0)
            for name in JOURNAL_FILES
        }
        sync_folder(folder)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for file in self._files.values():
            file.close()

    def attempt(self, record: AttemptRecord) -> None:
        """Notes that the runner was started on this run."""
        self._append(layout.ATTEMPTS, [record], sync=True)

    def boot(self, record: BootStarted | BootReady | BootStopped) -> None:
        """Notes an event of an engine process."""
        self._append(layout.BOOTS, [record], sync=True)

    def requests(self, records: Iterable[RequestRecord]) -> None:
        """Notes requests of a cell."""
        self._append(layout.REQUESTS, records, sync=False)

    def coverage(self, record: CoverageSnapshot) -> None:
        """Notes step counts."""
        self._append(layout.COVERAGE, [record], sync=False)

    def counters(self, record: EngineCounters) -> None:
        """Notes engine counters."""
        self._append(layout.COUNTERS, [record], sync=False)

    def telemetry(self, records: Iterable[TelemetryLine]) -> None:
        """Notes samples of the machine."""
        self._append(layout.TELEMETRY, records, sync=False)

    def graphs(self, records: Iterable[GraphEvent]) -> None:
        """Notes tables of replayed graphs, or kernels in them."""
        self._append(layout.GRAPHS, records, sync=False)

    def kernels(self, records: Iterable[KernelLine]) -> None:
        """Notes what a kernel package said in a cell."""
        self._append(layout.KERNELS, records, sync=False)

    def separation(self, record: SeparationRecord) -> None:
        """Notes how far an engine was kept from the referee."""
        self._append(layout.SEPARATION, [record], sync=True)

    def cell(self, record: CellFinished | CellAborted) -> None:
        """Notes the end of a cell, after everything that was recorded of it is on disk."""
        for name in _RAW:
            os.fsync(self._files[name].fileno())
        self._append(layout.CELLS, [record], sync=True)

    def _append(self, name: str, records: Iterable[Record], *, sync: bool) -> None:
        file = self._files[name]
        try:
            for record in records:
                _write_whole(file, canonical_json(self._clean(name, record)) + b"\n")
            if sync:
                os.fsync(file.fileno())
        except OSError as error:
            raise MachineError(
                f"The journal {name} cannot be written: {error.strerror}.",
                f"Free some space, then continue with: k3-eval resume {self._folder}",
            ) from error


def mend(folder: Path) -> int:
    """Drops half-written last lines, which a killed runner leaves.

    Args:
        folder: Run folder that no other runner holds.

    Returns:
        How many lines were dropped.

    Raises:
        MachineError: A line other than the last is not JSON; no crash of a runner does that.
    """
    return sum(_mend_file(folder / name) for name in JOURNAL_FILES)


def read_lines(path: Path) -> list[bytes]:
    """Complete lines of a mended file; none when the file is not there."""
    return path.read_bytes().splitlines() if path.is_file() else []


def _mend_file(path: Path) -> int:
    if not path.is_file():
        return 0
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    lines = whole.split(b"\n")[:-1]
    if lines and not _is_json(lines[-1]):
        # After a power cut the last block may have its length but not its bytes.
        whole = whole[: len(whole) - len(lines[-1]) - 1]
        lines = lines[:-1]
    for number, line in enumerate(lines, start=1):
        if not _is_json(line):
            raise MachineError(
                f"{path} is damaged in line {number}, which no interrupted run explains.",
                "Start a new run; this folder cannot be resumed.",
            )
    if whole == content:
        return 0
    with path.open("r+b") as file:
        file.truncate(len(whole))
        os.fsync(file.fileno())
    return 1


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _write_whole(file: BinaryIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
