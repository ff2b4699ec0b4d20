"""`python -m k3decode.tune [OP ...]`: times every way a launch can go, and makes a GPU's table.

On a GPU: each production case of an op whose launch has a choice is prepared with every candidate,
judged, and timed in turns with the others. One line of JSON per case, with an id. Processes that
share `--turns FILE` prepare at the same time and time alone.

Anywhere: `--write LINES...` makes or renews the tables of the GPUs that these lines are of, in
the package or in `--tables FOLDER`. Keep the lines: a table names them by their ids.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from k3decode.circumstances import circumstances, typed_command
from k3decode.json_lines import Fields, JsonLinesError, read_json_lines
from k3decode.needed_gpu import require_compiler, require_gpu
from k3decode.op import Case, Op, Part
from k3decode.registry import op_named
from k3decode.tuning.decision import MeasurementError, decided, merged
from k3decode.tuning.measurement import SCHEMA, measure_case, measurement_id
from k3decode.tuning.table import (
    TABLES,
    TuningTableError,
    read_tables,
    table_path,
    table_text,
)
from k3decode.turns import Turns

__all__ = ["TUNED_OPS", "main", "measured_line", "write_tables"]

TUNED_OPS = ("mla_combine", "mla_decode", "projection")
"""Ops whose launches have a choice."""
_FIELDS: Fields = {
    "schema": str,
    "id": str,
    "gpu": str,
    "commit": str,
    "op": str,
    "case": str,
    "shape": str,
    "rows": int,
    "ranks": list,
    "rule": str,
    "candidates": dict,
}


def measured_line(record: Mapping[str, Any], facts: Mapping[str, str]) -> str:
    """A measurement with its circumstances and its id, as a line."""
    said = {"schema": SCHEMA, **record, **facts}
    return json.dumps({**said, "id": measurement_id(said)}, allow_nan=False)


def write_tables(lines: Sequence[Path], folder: Path) -> list[Path]:
    """Make or renew the tables of a folder.

    Args:
        lines: files that this command printed.
        folder: of tables.

    Returns:
        What was written.

    Raises:
        JsonLinesError: a file is none of this command's.
        MeasurementError: lines do not belong together.
        TuningTableError: a table that is there cannot be read.
    """
    records = [
        record
        for path in lines
        for record in read_json_lines(path, _FIELDS, "write it with k3decode.tune --commit COMMIT")
    ]
    foreign = next((one["schema"] for one in records if one["schema"] != SCHEMA), None)
    if foreign is not None:
        raise MeasurementError(f"expected lines of '{SCHEMA}', found '{foreign}'")
    rows = merged(read_tables(folder), decided(records))
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for gpu in sorted({record["gpu"] for record in records}):
        path = table_path(folder, gpu)
        path.write_text(table_text(row for row in rows if row.gpu == gpu))
        written.append(path)
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options, parser = _options(arguments)
    if options.write:
        try:
            written = write_tables(options.write, options.tables)
        except (JsonLinesError, MeasurementError, TuningTableError) as error:
            parser.error(str(error))
        print("\n".join(str(path) for path in written))
        return 0
    require_gpu(parser)
    require_compiler(parser)
    device = torch.device("cuda")
    facts = circumstances(options.commit, typed_command("k3decode.tune", arguments))
    turns = Turns(options.turns)
    for op, case in options.part.taken(_chosen(options.ops, options.case)):
        record = measure_case(op, case, device, turns, options.rounds, options.replays)
        if record is not None:
            print(measured_line(record, facts), flush=True)
    return 0


def _chosen(ops: Sequence[Op], names: Sequence[str] | None) -> list[tuple[Op, Case]]:
    return [
        (op, case)
        for op in ops
        for case in op.cases
        if case.group == "production" and (names is None or case.name in names)
    ]


def _options(
    arguments: Sequence[str] | None,
) -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser(prog="python -m k3decode.tune", description=__doc__)
    parser.add_argument("op", nargs="*", help=f"of {', '.join(TUNED_OPS)}; all by default")
    parser.add_argument("--commit", help="commit of the code that runs")
    parser.add_argument("--case", action="append", help="production cases to measure, by name")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th of the cases")
    parser.add_argument("--turns", type=Path, metavar="FILE", help="shared with other processes")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each candidate")
    parser.add_argument("--replays", type=int, default=3, help="timed in a turn")
    parser.add_argument("--write", type=Path, nargs="+", metavar="LINES", help="make tables")
    parser.add_argument("--tables", type=Path, default=TABLES, metavar="FOLDER", help="where")
    options = parser.parse_args(arguments)
    if bool(options.write) == bool(options.commit):
        parser.error("expected --commit COMMIT to measure or --write LINES to make tables")
    unknown = set(options.op) - set(TUNED_OPS)
    if unknown:
        parser.error(
            f"expected ops of {', '.join(TUNED_OPS)}, found {', '.join(sorted(unknown))}: their "
            "launches have no choice"
        )
    try:
        options.ops = [op_named(name) for name in options.op or TUNED_OPS]
        options.part = Part.of(options.part)
    except ValueError as error:
        parser.error(str(error))
    return options, parser


if __name__ == "__main__":
    sys.exit(main())
