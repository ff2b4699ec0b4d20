"""A table is read as it was written, and whatever is wrong with it is a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from k3decode.registry import op_named
from k3decode.tuning.table import (
    TABLES,
    TuningTableError,
    read_tables,
    table_path,
    table_text,
)

from .table_lines import GPU, LINE, write_table

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_table(tmp_path, {}, {"rows": 33, "choice": "many_rows"})
    rows = read_tables(tmp_path)
    assert [(row.gpu, row.rows, row.choice) for row in rows] == [
        (GPU, 17, "few_rows"),
        (GPU, 33, "many_rows"),
    ]
    assert rows[0].latency_us == {"tp8_1k_m17": 8.0}
    table_path(tmp_path, GPU).write_text(table_text(rows))
    assert read_tables(tmp_path) == rows


def test_a_file_is_named_after_its_gpu() -> None:
    assert table_path(Path("a"), "NVIDIA GB300 (192GB)") == Path("a/nvidia_gb300_192gb.jsonl")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "k3decode.tuning/9"}, "expected schema 'k3decode.tuning/1', found 'k3decode"),
        ({"gpu": "NVIDIA Other"}, "expected the GPU that the file is named after, found 'NVIDIA O"),
        ({"rows": 0}, "expected rows of 1 or more, found 0"),
        ({"rows": "17"}, "expected 'rows' to be int, found '17'"),
        ({"ranks": [8, 0]}, r"expected ranks of 1 or more, found \[8, 0\]"),
        ({"ranks": ["8"]}, r"expected ranks of 1 or more, found \['8'\]"),
        ({"latency_us": {"tp8_1k_m17": -1.0}}, "expected latency_us above zero of one case"),
        ({"latency_us": {"other": 1.0}}, "latency_us and rule_us of the same cases, found others"),
        ({"rule_us": {}}, "expected rule_us above zero of one case at least"),
        ({"measurements": []}, r"expected the id of one measurement at least, found \[\]"),
    ],
)
def test_a_bad_line_is_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = write_table(tmp_path, {}, {"rows": 33, **change})
    with pytest.raises(TuningTableError, match=words) as refusal:
        read_tables(tmp_path)
    assert str(refusal.value).startswith(f"{path}: line 2: ")
    assert str(refusal.value).endswith("write it with k3decode.tune --write")


@pytest.mark.parametrize("name", list(LINE))
def test_every_field_is_needed(name: str, tmp_path: Path) -> None:
    path = tmp_path / "nvidia_test_9.jsonl"
    path.write_text(json.dumps({key: value for key, value in LINE.items() if key != name}))
    with pytest.raises(TuningTableError, match=f"expected a field '{name}'"):
        read_tables(tmp_path)


def test_no_launch_has_two_choices(tmp_path: Path) -> None:
    write_table(tmp_path, {}, {"choice": "many_rows"})
    with pytest.raises(TuningTableError, match="found two for mla_combine parts_to_values_12_hea"):
        read_tables(tmp_path)


def _kept_measurements() -> dict[str, dict[str, Any]]:
    lines = [
        json.loads(line)
        for path in BENCHMARKS.rglob("tune*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return {line["id"]: line for line in lines}


def test_the_packages_tables_say_what_was_measured() -> None:
    """Every row's measurements are kept, and are of its launch, its GPU and its choice."""
    kept = _kept_measurements()
    for row in read_tables(TABLES):
        for name in row.measurements:
            line = kept[name]
            place = (line["gpu"], line["op"], line["shape"], line["rows"])
            assert place == (row.gpu, row.op, row.shape, row.rows)
            assert line["candidates"][row.choice]["us"] == row.latency_us[line["case"]]


def test_the_packages_tables_choose_what_is_compiled_ahead_of_time() -> None:
    variants = set(op_named("projection").variants)
    chosen = {row.choice for row in read_tables(TABLES) if row.op == "projection"}
    assert chosen <= variants
