"""Tables of measured choices, a file of JSON lines for each GPU: read, and refused in sentences.

A line says which of its op's candidates is launched for a shape and for numbers of rows, what it
took beside what the op's rule would choose, and which measurements say so. Their lines, by the same
ids, are kept in benchmarks/.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from k3decode.json_lines import Fields, JsonLinesError, read_json_lines

__all__ = [
    "TABLES",
    "TunedRow",
    "TuningTableError",
    "kept_rows",
    "read_tables",
    "table_path",
    "table_text",
]

SCHEMA = "k3decode.tuning/1"
TABLES = Path(__file__).with_name("tables")
"""Tables that come with the package."""
_FIELDS: Fields = {
    "schema": str,
    "gpu": str,
    "op": str,
    "shape": str,
    "ranks": list,
    "rows": int,
    "choice": str,
    "rule": str,
    "latency_us": dict,
    "rule_us": dict,
    "measurements": list,
}
_NEXT_STEP = "write it with k3decode.tune --write"


class TuningTableError(ValueError):
    """A table cannot be read, or says something that cannot be."""


@dataclass(frozen=True)
class TunedRow:
    """One measured choice."""

    gpu: str
    """As the driver names it."""
    op: str
    shape: str
    """What a launch is asked for, but for its rows; each op has words of its own."""
    ranks: tuple[int, ...]
    """How many ranks share a model whose launches have this shape; empty where none is named."""
    rows: int
    """Measured at so many rows.

    Launches of fewer take it too, if none is closer, down to more than half as many."""
    choice: str
    """Candidate that is launched."""
    rule: str
    """Candidate that the op's rule names."""
    latency_us: Mapping[str, float]
    """Of the choice, by case."""
    rule_us: Mapping[str, float]
    """Of the rule's candidate, by case, in the same runs."""
    measurements: tuple[str, ...]
    """Ids of the lines that say so."""


def read_tables(folder: Path = TABLES) -> tuple[TunedRow, ...]:
    """Read all tables of a folder.

    Raises:
        TuningTableError: a line is not as described, or two are for the same launch.
    """
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            records = read_json_lines(path, _FIELDS, _NEXT_STEP)
        except JsonLinesError as error:
            raise TuningTableError(str(error)) from None
        rows = [_row(path, number, record) for number, record in enumerate(records, 1)]
        _refuse_two_of_one_launch(path, rows)
        found += rows
    return tuple(found)


@cache
def kept_rows() -> tuple[TunedRow, ...]:
    """Rows of the package's own tables, read once."""
    return read_tables()


def table_path(folder: Path, gpu: str) -> Path:
    """Where the table of a GPU is."""
    return folder / (re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_") + ".jsonl")


def table_text(rows: Iterable[TunedRow]) -> str:
    """The file of a GPU's rows."""
    ordered = sorted(rows, key=lambda row: (row.op, row.shape, row.rows))
    return "".join(json.dumps({"schema": SCHEMA, **asdict(row)}) + "\n" for row in ordered)


def _row(path: Path, number: int, record: Mapping[str, Any]) -> TunedRow:
    """One line.

    Raises:
        TuningTableError: it says something that cannot be.
    """
    problems = list(_problems(path, record))
    if problems:
        raise TuningTableError(f"{path}: line {number}: {'; '.join(problems)}: {_NEXT_STEP}")
    return TunedRow(
        gpu=record["gpu"],
        op=record["op"],
        shape=record["shape"],
        ranks=tuple(record["ranks"]),
        rows=record["rows"],
        choice=record["choice"],
        rule=record["rule"],
        latency_us=record["latency_us"],
        rule_us=record["rule_us"],
        measurements=tuple(record["measurements"]),
    )


def _problems(path: Path, record: Mapping[str, Any]) -> Iterable[str]:
    if record["schema"] != SCHEMA:
        yield f"expected schema '{SCHEMA}', found '{record['schema']}'"
    if table_path(path.parent, record["gpu"]) != path:
        yield f"expected the GPU that the file is named after, found '{record['gpu']}'"
    if record["rows"] < 1:
        yield f"expected rows of 1 or more, found {record['rows']}"
    if not _are_counts(record["ranks"]):
        yield f"expected ranks of 1 or more, found {record['ranks']}"
    for name in ("latency_us", "rule_us"):
        if not record[name] or not all(_is_time(time) for time in record[name].values()):
            yield f"expected {name} above zero of one case at least, found {record[name]}"
    if set(record["latency_us"]) != set(record["rule_us"]):
        yield "expected latency_us and rule_us of the same cases, found others"
    named = record["measurements"]
    if not named or not all(isinstance(one, str) and one for one in named):
        yield f"expected the id of one measurement at least, found {named}"


def _are_counts(values: Sequence[Any]) -> bool:
    return all(type(value) is int and value >= 1 for value in values)


def _is_time(value: Any) -> bool:
    return type(value) in {int, float} and 0 < value < float("inf")


def _refuse_two_of_one_launch(path: Path, rows: Sequence[TunedRow]) -> None:
    seen = set()
    for row in rows:
        if (row.op, row.shape, row.rows) in seen:
            raise TuningTableError(
                f"{path}: expected one choice for each launch, found two for {row.op} "
                f"{row.shape} at {row.rows} rows: {_NEXT_STEP}"
            )
        seen.add((row.op, row.shape, row.rows))
