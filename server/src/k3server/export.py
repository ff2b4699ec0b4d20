"""Writes everything public to files: JSON lines, or Parquet where pyarrow is installed."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from k3server.errors import MachineError
from k3server.export_rows import (
    NUMBER_COLUMNS,
    SUBMISSION_COLUMNS,
    Value,
    number_rows,
    submission_row,
)
from k3server.ports import SubmissionIndex
from k3server.submission import Submission

__all__ = ["ExportFormat", "export"]

ExportFormat = Literal["jsonl", "parquet"]
"""`jsonl`: a JSON object per line. `parquet`: columns."""

_PAGE: Final = 200
_BATCH: Final = 5000


def export(index: SubmissionIndex, folder: Path, *, form: ExportFormat) -> dict[str, int]:
    """Write `submissions` and `numbers`; each file has its name only when it is whole.

    Args:
        index: Where submissions are.
        folder: Where the files go; made when it is not there.
        form: Format, and the suffix of the files.

    Returns:
        File name -> rows.

    Raises:
        MachineError: Parquet was asked for and pyarrow is not installed.
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        f"submissions.{form}": SUBMISSION_COLUMNS,
        f"numbers.{form}": NUMBER_COLUMNS,
    }
    writers = [_writer(folder / f".{name}.partial", names[name], form) for name in names]
    try:
        for submission in _public(index):
            writers[0].write(submission_row(submission))
            for row in number_rows(submission):
                writers[1].write(row)
    finally:
        counts = [writer.close() for writer in writers]
    for name in names:
        (folder / f".{name}.partial").replace(folder / name)
    return dict(zip(names, counts, strict=True))


def _public(index: SubmissionIndex) -> Iterator[Submission]:
    before: int | None = None
    while rows := index.latest(limit=_PAGE, before=before):
        for row in rows:
            submission = index.get(row.bundle_sha256)
            if submission is not None:
                yield submission
        before = rows[-1].sequence


class _Writer(Protocol):
    def write(self, row: Mapping[str, Value]) -> None: ...

    def close(self) -> int: ...


def _writer(path: Path, columns: Mapping[str, type], form: ExportFormat) -> _Writer:
    return _JsonLines(path) if form == "jsonl" else _Parquet(path, columns)


class _JsonLines:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._rows = 0

    def write(self, row: Mapping[str, Value]) -> None:
        self._file.write(json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n")
        self._rows += 1

    def close(self) -> int:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._rows


class _Parquet:
    """Columns in batches, so that memory does not grow with the registry."""

    def __init__(self, path: Path, columns: Mapping[str, type]) -> None:
        try:
            import pyarrow  # noqa: PLC0415
            from pyarrow import parquet  # noqa: PLC0415
        except ImportError:
            raise MachineError(
                "Expected pyarrow to write Parquet, found it not installed.",
                "Install k3-server[production], or export with --format jsonl.",
            ) from None
        of: dict[type, Any] = {
            str: pyarrow.string(),
            int: pyarrow.int64(),
            float: pyarrow.float64(),
            bool: pyarrow.bool_(),
        }
        self._arrow = pyarrow
        self._schema = pyarrow.schema([(name, of[kind]) for name, kind in columns.items()])
        self._file = parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._batch: list[Mapping[str, Value]] = []
        self._rows = 0

    def write(self, row: Mapping[str, Value]) -> None:
        self._batch.append(row)
        if len(self._batch) >= _BATCH:
            self._flush()

    def close(self) -> int:
        self._flush()
        self._file.close()
        return self._rows

    def _flush(self) -> None:
        table = self._arrow.Table.from_pylist(self._batch, schema=self._schema)
        self._file.write_table(table)
        self._rows += len(self._batch)
        self._batch.clear()
