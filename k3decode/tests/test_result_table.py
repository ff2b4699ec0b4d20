"""The page of results says what the lines say, and the committed one is current."""

import json
from pathlib import Path

import pytest

from k3decode import result_table as module
from k3decode.result_table import latest_compiled, read_records, result_table

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def _check(case: str, worst: object, **more: object) -> dict[str, object]:
    return {
        "schema": "k3decode.check/1",
        "op": "kda",
        "case": case,
        "group": "production",
        "outcome": "passed",
        "worst": worst,
        **more,
    }


def _compiled(architecture: str) -> dict[str, object]:
    return {
        "schema": "k3decode.compile/2",
        "op": "kda",
        "variant": "a",
        "architecture": architecture,
        "kernel": 0,
        "registers": 64,
        "shared_bytes": 128,
        "stack_bytes": 0,
        "spills": False,
        "instructions": {"fp32": 2},
    }


def test_the_last_record_of_a_case_counts() -> None:
    page = result_table([_check("m1", 0.9), _check("m1", 0.25, gpu="NVIDIA H200", commit="abc")])
    assert "| `kda` | m1 | 0.25 | plain |  |  |  |  | H200 | abc |" in page
    assert "0.90" not in page
    assert "| `kda` | production | plain | 1 | 1 | 0.25 |" in page


def test_the_last_way_in_which_a_case_ran_is_shown() -> None:
    checks = [
        _check("m1", 0.1),
        _check("m1", 0.3, how="exported"),
        _check("m1", 0.5, how="late inputs"),
    ]
    time = {
        "schema": "k3decode.bench/1",
        "op": "kda",
        "case": "m1",
        "latency_us": 7.5,
        "bandwidth_gb_per_s": 2000.0,
        "sol_fraction": 0.5,
        "read_ratio": 1.25,
        "cold": True,
        "gpu": "NVIDIA H200",
        "commit": "abc",
    }
    page = result_table([*checks, time])
    assert page.count("| `kda` | m1 |") == 1
    row = "| `kda` | m1 | 0.50 | late inputs | 7.50 | 2000 | 50.0 % | 1.25 | H200 | abc |"
    assert row in page


def test_what_did_not_run_is_called_compiled() -> None:
    page = result_table([_check("m1", 0.5), _compiled("sm_90a"), _compiled("sm_100a")])
    assert "| sm_90a | 64 | 128 | 0 | 2 fp32 | the op's cases ran |" in page
    assert "| sm_100a | 64 | 128 | 0 | 2 fp32 | compiled, not measured |" in page


def test_a_variant_that_no_op_has_any_more_is_left_out() -> None:
    old = {**_compiled("sm_90a"), "variant": "old"}
    page = result_table([_compiled("sm_90a"), old], {("kda", "a")})
    assert "| `kda` | a | sm_90a |" in page
    assert "old" not in page


def test_a_variant_that_has_fewer_kernels_than_before_shows_no_others() -> None:
    second = {**_compiled("sm_90a"), "kernel": 1, "registers": 65}
    assert latest_compiled([_compiled("sm_90a"), second]) == [_compiled("sm_90a"), second]
    assert latest_compiled([second, _compiled("sm_90a")]) == [_compiled("sm_90a")]


def test_a_failed_case_is_shown() -> None:
    failed = {**_check("m1", 0.0), "worst": None, "outcome": "failed"}
    page = result_table([failed])
    assert "| `kda` | m1 | failed | plain |" in page
    close = result_table([{**failed, "worst": 1.25}])
    assert "| `kda` | m1 | 1.25 failed | plain |" in close
    assert "| `kda` | production | plain | 1 | 0 | 0.00 |" in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "expected a folder with results (*.jsonl) at"),
        (
            '{"name": "of something else"}\n',
            "line 1: expected a field 'schema' (str), found 'name'",
        ),
        ("\ngarbage\n", "line 2: expected a JSON object, found 'garbage'"),
        ('{"schema": "k3decode.bench/1", "op": "kda"}', "line 1: expected a field 'case' (str)"),
        (json.dumps(_check("m1", "small")), "expected 'worst' to be float | int | None, found"),
    ],
)
def test_a_folder_that_cannot_be_read_is_one_sentence(
    text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "lines.jsonl").write_text(text)
    folder = tmp_path / "nowhere" if text is None else tmp_path
    with pytest.raises(SystemExit) as end:
        module.main([str(folder)])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert str(folder) in error
    assert not (folder / "TABLE.md").exists()


def test_lines_of_other_commands_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"schema": "k3decode.layer_bench/1", "rows": 1}\n')
    assert module.main([str(tmp_path)]) == 0
    assert "layer_bench" not in (tmp_path / "TABLE.md").read_text()


def test_records_of_a_later_day_count_whatever_their_folder_is_called(tmp_path: Path) -> None:
    for folder, registers in (("compile-2026-12-01", 48), ("h200-2026-11-30-whole", 64)):
        (tmp_path / folder).mkdir()
        line = json.dumps({**_compiled("sm_90a"), "registers": registers})
        (tmp_path / folder / "compile.jsonl").write_text(line + "\n")
    page = result_table(read_records(tmp_path))
    assert "| sm_90a | 48 | 128 |" in page
    assert "| sm_90a | 64 |" not in page


def test_the_committed_page_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_records(BENCHMARKS)
    assert module.main([str(BENCHMARKS), "--check"]) == 0, capsys.readouterr().err
