"""Parts run in order, some beside each other; every one is told of, and each failure counts."""

from pathlib import Path

import pytest

from k3house.parts import run_parts

# The two of a pair wait for each other's file, so neither ends unless both run.
MAKEFILE = """
TRIES = $(shell seq 1000)
alone:
\t@echo spoken alone >> told
left:
\t@touch left; for n in $(TRIES); do test -e right && exit 0; sleep 0.01; done; exit 3
right:
\t@echo said by $(WHO); touch right
\t@for n in $(TRIES); do test -e left && exit 0; sleep 0.01; done; exit 3
red:
\t@echo why it is red; exit 4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Makefile").write_text(MAKEFILE)
    return tmp_path


def _run(folder: Path, *parts: str, beside: tuple[str, ...] = (), tries: str = "") -> int:
    variables = ["WHO=them", *([f"TRIES={tries}"] if tries else [])]
    return run_parts(list(parts), variables, beside=beside, root=folder, logs=folder / "log")


def test_a_pair_runs_at_the_same_time_and_its_words_are_kept_apart(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _run(folder, "alone", "left", "right", beside=("right",)) == 0
    out, err = capfd.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["alone", "left", "right", "3"]
    assert "3 of 3 parts passed" in out
    assert (folder / "log" / "right.log").read_text() == "said by them\n"
    assert err.endswith("== right said beside left:\nsaid by them\n")


def test_without_company_they_run_one_after_the_other(folder: Path) -> None:
    assert _run(folder, "left", "right", tries="1 2 3") == 1
    assert not (folder / "log").exists()


@pytest.mark.parametrize("parts", [("red", "alone"), ("alone", "red")])
def test_a_failure_on_either_side_counts_and_is_named(
    folder: Path, capfd: pytest.CaptureFixture[str], parts: tuple[str, str]
) -> None:
    assert _run(folder, *parts, "alone", beside=parts[1:]) == 1
    out, err = capfd.readouterr()
    assert "red" in out
    # make itself ends with 2 when a recipe fails.
    assert "FAILED (status 2)" in out
    assert "2 of 3 parts passed" in out
    assert out.endswith("; failed: red\n")
    assert "why it is red" in out + err
