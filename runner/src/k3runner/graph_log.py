"""Reads the table of dispatched graphs that vLLM prints with `--cudagraph-metrics`. Pure.

vLLM 0.33 prints it at every interval of its statistics and then counts from zero again, so the sum
of all tables of a log is what was dispatched since the start:

    **CUDAGraph Config Settings:**
    - Mode: FULL_AND_PIECEWISE
    - Capture sizes: [1, 2, 4, 8]
    **CUDAGraph Stats:**
    | Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |
    |-----------------|---------------|--------------|--------------|-------|
    | 3               | 4             | 1            | FULL         | 120   |
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from k3bundle.graph_record import GraphMode, GraphRow

__all__ = ["GraphLog", "read_graph_log"]

_ROW: Final = re.compile(
    r"\| *(\d{1,9}) *\| *(\d{1,9}) *\| *(\d{1,9}) *\| *(?:CUDAGraphMode\.)?([A-Z_]{1,30}) *"
    r"\| *(\d{1,15}) *\|\s*"
)
_SIZES: Final = re.compile(r"- Capture sizes: \[([\d, ]*)\]\s*$")
_HEADER: Final = re.compile(
    r"\| *Unpadded Tokens *\| *Padded Tokens *\| *Num Paddings *\| *Runtime Mode *\| *Count *\|\s*$"
)
_RULE: Final = re.compile(r"\|-+\|-+\|-+\|-+\|-+\|\s*")
_MODES: Final = frozenset(get_args(GraphMode))
_LINE_LIMIT: Final = 400


@dataclass(frozen=True)
class GraphLog:
    """What a log says about graphs, summed over all its tables."""

    tables: int
    """How many tables it holds; 0 when the engine does not print them."""
    capture_sizes: tuple[int, ...]
    """Token counts that graphs were captured for, ascending."""
    rows: tuple[GraphRow, ...]
    """Steps by size and mode, in order of size."""


@dataclass
class _Reading:
    tables: int = 0
    sizes: tuple[int, ...] = ()
    counts: Counter[tuple[int, int, GraphMode]] = field(default_factory=Counter)
    prefix: str = ""
    """What the log puts before every line of the table that is being read."""
    expected: Literal["header", "rule", "row"] = "header"


def read_graph_log(text: str) -> GraphLog:
    """Sums all tables of a log.

    A row counts only below the header of a table and the rule under it, and behind the same words
    of the log: time, process and place in the code. So a prompt that is logged cannot add steps,
    and a line that another process writes in between takes none away.

    Args:
        text: The engine's log, or its part up to a moment. A last line without an end is left
            out, since it may be half written.
    """
    reading = _Reading()
    # Other characters that end a line for Python may stand within one of the log.
    for line in text.split("\n")[:-1]:
        if len(line) <= _LINE_LIMIT:
            _take(line, reading)
    return GraphLog(
        tables=reading.tables,
        capture_sizes=reading.sizes,
        rows=tuple(
            GraphRow(unpadded_tokens=unpadded, padded_tokens=padded, mode=mode, count=count)
            for (unpadded, padded, mode), count in sorted(reading.counts.items())
        ),
    )


def _take(line: str, reading: _Reading) -> None:
    header, sizes = _HEADER.search(line), _SIZES.search(line)
    if sizes:
        numbers = {int(word) for word in sizes[1].split(",") if word.strip()}
        reading.sizes = tuple(sorted(numbers))
    elif header:
        reading.prefix, reading.expected = line[: header.start()], "rule"
    elif reading.expected == "header" or not line.startswith(reading.prefix):
        return
    elif reading.expected == "rule":
        found = _RULE.fullmatch(line, len(reading.prefix)) is not None
        reading.expected = "row" if found else "header"
        reading.tables += found
    elif not _take_row(line, reading):
        reading.expected = "header"


def _take_row(line: str, reading: _Reading) -> bool:
    """Adds a row; False when the table has ended."""
    row = _ROW.fullmatch(line, len(reading.prefix))
    if row is None:
        return False
    unpadded, padded, _, mode, count = row.groups()
    known = next((one for one in sorted(_MODES) if one == mode), None)
    if known is not None:
        reading.counts[int(unpadded), int(padded), _mode(known)] += int(count)
    return True


def _mode(name: str) -> GraphMode:
    return "FULL" if name == "FULL" else "PIECEWISE" if name == "PIECEWISE" else "NONE"
