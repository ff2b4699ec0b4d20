"""The command refuses what it cannot do in one sentence, and makes tables of lines."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from k3decode import tune
from k3decode.op import Case, Op, Trial
from k3decode.registry import op_named
from k3decode.tune import measured_line, write_tables
from k3decode.tuning.table import read_tables

FACTS = {"gpu": "NVIDIA Test 9", "commit": "abc"}
RECORD: dict[str, Any] = {
    "op": "mla_combine",
    "case": "tp8_1k_m17",
    "shape": "parts_to_values_12_heads",
    "rows": 17,
    "ranks": [8],
    "rule": "many_rows",
    "candidates": {
        "many_rows": {"us": 10.5, "ratio": 1.0, "ratio_low": 1.0, "ratio_high": 1.0},
        "few_rows": {"us": 8.4, "ratio": 1.25, "ratio_low": 1.2, "ratio_high": 1.3},
    },
}


def _lines(path: Path, *changes: dict[str, Any]) -> Path:
    path.write_text("".join(measured_line({**RECORD, **one}, FACTS) + "\n" for one in changes))
    return path


def test_lines_become_a_table_that_is_renewed(tmp_path: Path) -> None:
    (path,) = write_tables([_lines(tmp_path / "a.jsonl", {}, {"rows": 33})], _folder(tmp_path))
    assert path == tmp_path / "tables" / "nvidia_test_9.jsonl"
    assert [(row.rows, row.choice) for row in read_tables(path.parent)] == [
        (17, "few_rows"),
        (33, "few_rows"),
    ]
    again = _lines(tmp_path / "b.jsonl", {"rows": 48})
    write_tables([again], path.parent)
    (row,) = read_tables(path.parent)
    assert row.rows == 48
    assert row.measurements == (json.loads(again.read_text())["id"],)


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected --commit COMMIT to measure or --write LINES to make tables"),
        (["--commit", "a", "--write", "b"], "expected --commit COMMIT to measure or --write"),
        (["situ", "--commit", "a"], "expected ops of mla_combine, mla_decode, projection, found s"),
        (["--commit", "a", "--part", "3/2"], "expected a part as 2/3, found '3/2'"),
        (["--write", "missing.jsonl"], "found No such file or directory: write it with k3decode"),
    ],
)
def test_what_is_typed_wrong_is_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        tune.main(arguments)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_a_changed_line_and_a_foreign_one_make_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _lines(tmp_path / "a.jsonl", {})
    for old, new, words in (
        ('"us": 8.4', '"us": 5.4', "changed: measure again"),
        ("k3decode.tune/1", "k3decode.bench/1", "found 'k3decode.bench/1'"),
    ):
        path.write_text(path.read_text().replace(old, new))
        with pytest.raises(SystemExit):
            tune.main(["--write", str(path), "--tables", str(tmp_path / "tables")])
        assert words in capsys.readouterr().err
        _lines(path, {})
    assert not (tmp_path / "tables").exists()


def test_every_tuned_op_has_production_cases_of_several_rows() -> None:
    for name in tune.TUNED_OPS:
        found: list[tuple[Op, Case]] = tune._chosen([op_named(name)], None)
        assert len(found) > 10
        assert tune._chosen([op_named(name)], [found[0][1].name]) == [found[0]]


def test_a_case_without_a_choice_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from k3decode.cost import Cost  # noqa: PLC0415
    from k3decode.tuning.measurement import measure_case  # noqa: PLC0415
    from k3decode.turns import Turns  # noqa: PLC0415

    trial = Trial(run=lambda: None, judge=tuple, cost=Cost(flops=0, read_bytes=1, write_bytes=1))
    case = Case("tp8_m1", "production", lambda _launch, _device: trial)
    cpu = torch.device("cpu")
    assert measure_case(op_named("router"), case, cpu, Turns(None), 3, 1) is None
