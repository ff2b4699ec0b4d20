"""`python -m k3decode.result_table FOLDER`: one page of all kept results, FOLDER/TABLE.md.

Reads every JSON line under the folder that the check, the bench and the compile report wrote. Of
several records of one case or variant the last counts: folders in the order of the days in their
names, then of the names, lines in theirs. Compiled variants that no op has any more are left out.
`--check` writes nothing and fails where the page is not what the lines say. Exit code 2: the lines
cannot be read.
"""

import argparse
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from k3decode.json_lines import Fields, JsonLinesError, read_json_lines
from k3decode.registry import OPS

__all__ = ["latest_compiled", "main", "read_records", "result_table"]

Record = Mapping[str, Any]

_PAGE = "TABLE.md"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_FIELDS: Mapping[str, Fields] = {
    "check": {"op": str, "case": str, "group": str, "outcome": str, "worst": float | int | None},
    "bench": {
        "op": str,
        "case": str,
        "latency_us": float | int,
        "bandwidth_gb_per_s": float | int,
        "sol_fraction": float | int,
    },
    "compile": {
        "op": str,
        "variant": str,
        "architecture": str,
        "registers": int,
        "shared_bytes": int,
        "stack_bytes": int,
        "spills": bool,
    },
}
_NEXT_STEP = "write it again with the command that made it, or move it out of the folder"
_ONLY_COMPILED = "compiled, not measured"
# Files of the check, by their names: how the cases ran.
_HOW = {"jitter": "late inputs", "prepared": "exported", "replay": "recorded"}
_JUDGED = frozenset({"plain", "exported", "late inputs"})
_HEAD = """# Results

Made by `python -m k3decode.result_table`; do not edit. What was run, when and with what is in
[LOG.md](LOG.md). Error is the largest error over what `tolerance.py` allows. Times are replays of a
graph, per launch; `warm` ones had all inputs in the L2 cache. The floor is the time of the bytes
and the arithmetic at the GPU's peaks; `Reads` is the time over that of a kernel that only reads as
many bytes, in the same run.
"""


def read_records(folder: Path) -> list[Record]:
    """All JSON lines under a folder, files in the order of their days, then of their paths' parts.

    Raises:
        JsonLinesError: no file of lines is there, or one that is not of this package's commands.
    """
    paths = sorted(folder.rglob("*.jsonl"), key=lambda path: _order(path.relative_to(folder)))
    if not paths:
        raise JsonLinesError(
            f"expected a folder with results (*.jsonl) at {folder}, found none: write some with "
            "k3decode.check --json, k3decode.bench or k3decode.compile_report --json"
        )
    return [
        {"how": _HOW.get(path.stem, "plain"), **record}
        for path in paths
        for record in read_json_lines(path, {"schema": str}, _NEXT_STEP, by_kind=_FIELDS)
    ]


def _order(path: Path) -> tuple[str, tuple[str, ...]]:
    """The day in a file's path, a path without one first, and the parts of the path."""
    day = _DAY.search(str(path))
    return (day.group() if day else "", path.parts)


def result_table(
    records: Iterable[Record], known: Collection[tuple[str, str]] | None = None
) -> str:
    """The page.

    Args:
        records: as `read_records` gives them.
        known: op and variant of the compiled ones that are shown; None: all.
    """
    records = list(records)
    checks, times = (_latest_of(records, kind) for kind in ("check", "bench"))
    compiled = latest_compiled(records)
    if known is not None:
        compiled = [one for one in compiled if (one["op"], one["variant"]) in known]
    ran = {(check["op"], _architecture(check)) for check in checks.values()}
    return "\n".join(
        [
            _HEAD,
            "## Checked and timed\n",
            *_cases(list(checks.values()), times),
            "\n## All cases by group\n",
            *_groups(list(checks.values())),
            "\n## Compiled\n",
            f"Of what is marked `{_ONLY_COMPILED}` nothing ran on a GPU.\n",
            *_compiled(compiled, ran),
            "",
        ]
    )


def _latest_of(records: Iterable[Record], kind: str) -> dict[tuple[object, ...], Record]:
    """By op, case and how it ran, in the order in which they were written last."""
    latest: dict[tuple[object, ...], Record] = {}
    for record in records:
        if _kind_of(record) == kind:
            place = (record["op"], record["case"], record.get("how", "plain"))
            latest.pop(place, None)
            latest[place] = record
    return latest


def latest_compiled(records: Iterable[Record]) -> list[Record]:
    """Of each variant and architecture the kernels that were compiled last, which may be fewer."""
    variants: dict[tuple[object, ...], dict[int, Record]] = {}
    for record in records:
        if _kind_of(record) != "compile":
            continue
        place = (record["op"], record["variant"], record["architecture"])
        kernel = record.get("kernel", 0)
        if kernel == 0:
            variants.pop(place, None)
        variants.setdefault(place, {})[kernel] = record
    return [record for kernels in variants.values() for record in kernels.values()]


def _kind_of(record: Record) -> str:
    return str(record["schema"]).removeprefix("k3decode.").partition("/")[0]


def _architecture(record: Record) -> str:
    """What a record ran on; records without circumstances are those of the log's first H200."""
    name = str(record.get("gpu", "NVIDIA H200"))
    return "sm_90a" if "H200" in name or "H100" in name else name


def _cases(checks: Sequence[Record], times: Mapping[tuple[object, ...], Record]) -> Iterable[str]:
    yield "| Op | Case | Error | How | Time, us | GB/s | Of the floor | Reads | GPU | Commit |"
    yield "|---|---|--:|---|--:|--:|--:|--:|---|---|"
    for check in _latest(checks):
        time = times.get((check["op"], check["case"], "plain"), {})
        warm = "" if time.get("cold", True) else " warm"
        share = f"{100 * time['sol_fraction']:.1f} %" if time else ""
        cells = [
            f"`{check['op']}`",
            check["case"],
            _error(check),
            check.get("how", "plain"),
            f"{time['latency_us']:.2f}{warm}" if time else "",
            f"{time['bandwidth_gb_per_s']:.0f}" if time else "",
            share,
            f"{time['read_ratio']:.2f}" if time.get("read_ratio") else "",
            str(time.get("gpu", check.get("gpu", ""))).removeprefix("NVIDIA "),
            str(time.get("commit", check.get("commit", "")))[:8],
        ]
        yield f"| {' | '.join(cells)} |"


def _latest(checks: Sequence[Record]) -> Iterable[Record]:
    """Production cases, however they ran; the last record of each counts."""
    latest: dict[tuple[str, str], Record] = {}
    for check in checks:
        if check["group"] == "production" and check.get("how", "plain") in _JUDGED:
            latest.pop((check["op"], check["case"]), None)
            latest[check["op"], check["case"]] = check
    return latest.values()


def _error(check: Record) -> str:
    """Share of what is allowed, and what became of the case unless it passed."""
    if check["worst"] is None:
        return str(check["outcome"])
    word = "" if check["outcome"] == "passed" else f" {check['outcome']}"
    return f"{check['worst']:.2f}{word}"


def _groups(checks: Sequence[Record]) -> Iterable[str]:
    yield "| Op | Group | How | Cases | Passed | Largest error |"
    yield "|---|---|---|--:|--:|--:|"
    for op, group, how in dict.fromkeys(_kind(check) for check in checks):
        chosen = [check for check in checks if _kind(check) == (op, group, how)]
        passed = sum(check["outcome"] == "passed" for check in chosen)
        worst = max((check["worst"] for check in chosen if check["worst"] is not None), default=0)
        yield f"| `{op}` | {group} | {how} | {len(chosen)} | {passed} | {worst:.2f} |"


def _kind(check: Record) -> tuple[str, str, str]:
    return check["op"], check["group"], check.get("how", "plain")


def _compiled(compiled: Sequence[Record], ran: set[tuple[str, str]]) -> Iterable[str]:
    yield "| Op | Variant | For | Registers | Shared, B | Stack, B | Instructions | State |"
    yield "|---|---|---|--:|--:|--:|---|---|"
    for record in compiled:
        mix = ", ".join(f"{n} {family}" for family, n in record.get("instructions", {}).items())
        where = (record["op"], record["architecture"])
        state = "the op's cases ran" if where in ran else _ONLY_COMPILED
        cells = [
            f"`{record['op']}`",
            record["variant"] + (f", kernel {record['kernel']}" if record.get("kernel") else ""),
            record["architecture"],
            str(record["registers"]),
            str(record["shared_bytes"]),
            f"{record['stack_bytes']}{' SPILLS' if record['spills'] else ''}",
            mix,
            state,
        ]
        yield f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.result_table", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    options = parser.parse_args(arguments)
    page = options.folder / _PAGE
    try:
        known = {(op.name, variant) for op in OPS for variant in op.variants}
        text = result_table(read_records(options.folder), known)
    except JsonLinesError as error:
        parser.error(str(error))
    if not options.check:
        page.write_text(text)
        return 0
    if page.is_file() and page.read_text() == text:
        return 0
    print(
        f"{page} is not what the lines beside it say: run python -m k3decode.result_table "
        f"{options.folder}",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
