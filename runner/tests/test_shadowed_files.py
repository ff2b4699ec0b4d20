"""What an arm brings in the place of installed files is said by name."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from k3runner.shadowed_files import shadow_remarks
from k3runner.subject_facts import read_facts
from k3runner.subjects import load_subject
from k3runner.subjects.definition import SubjectArm
from k3runner_testing.fake_subject import write_fake_subject
from k3runner_testing.run_case import CHANGE, fake_config


def arms_with(folder: Path, names: tuple[str, ...]) -> tuple[SubjectArm, ...]:
    """A subject whose candidate brings files of these names."""
    for name in names:
        (folder / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "own" / name).write_text("x = 1\n")
    path = write_fake_subject(folder)
    path.write_text(path.read_text("utf-8") + 'overlay = "own"\n', "utf-8")
    return load_subject(str(path)).arms


def engine(folder: Path, names: tuple[str, ...]) -> Path:
    """Python of an environment in which files of these names are installed."""
    for name in names:
        path = folder / "env/lib/python3.11/site-packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("y = 1\n")
    return folder / "env/bin/python"


@pytest.mark.parametrize(
    ("own", "installed", "said"),
    [
        (
            ("fast/a.py", "fast/b.py"),
            ("vllm/c.py",),
            ["The candidate brings 2 files of its own, and none of an installed name."],
        ),
        (
            ("fast/a.py", "vllm/v1/core/sched/scheduler.py"),
            ("vllm/v1/core/sched/scheduler.py", "vllm/c.py"),
            [
                "The candidate brings 2 files of its own, of which 1 comes before installed ones "
                "and 1 of these differs.",
                "The candidate's own, unlike what is installed: vllm/v1/core/sched/scheduler.py.",
            ],
        ),
        (
            ("vllm/a.py", "vllm/b.py"),
            ("vllm/a.py", "vllm/b.py"),
            [
                "The candidate brings 2 files of its own, of which 2 come before installed ones "
                "and 2 of these differ.",
                "The candidate's own, unlike what is installed: vllm/a.py, vllm/b.py.",
            ],
        ),
    ],
)
def test_files_in_the_place_of_installed_ones_are_named(
    own: tuple[str, ...], installed: tuple[str, ...], said: list[str], tmp_path: Path
) -> None:
    found = shadow_remarks(arms_with(tmp_path, own), engine(tmp_path, installed))
    assert list(found) == said


def test_a_file_that_is_the_same_is_not_called_different(tmp_path: Path) -> None:
    arms, python = arms_with(tmp_path, ("vllm/a.py",)), engine(tmp_path, ("vllm/a.py",))
    (tmp_path / "env/lib/python3.11/site-packages/vllm/a.py").write_text("x = 1\n")
    (sentence,) = shadow_remarks(arms, python)
    assert sentence.endswith("1 comes before installed ones, with the same content.")


def test_every_differing_file_is_named_however_many(tmp_path: Path) -> None:
    names = tuple(f"vllm/a_rather_long_folder_name/module_{n:03}.py" for n in range(100))
    first, *lists = shadow_remarks(arms_with(tmp_path, names), engine(tmp_path, names))
    assert "and 100 of these differ." in first
    assert len(lists) > 1
    assert all(len(line) <= 2000 for line in lists)
    assert [name for name in names if not any(name in line for line in lists)] == []


def test_arms_of_what_is_installed_say_nothing(tmp_path: Path) -> None:
    arms = load_subject(str(write_fake_subject(tmp_path))).arms
    assert shadow_remarks(arms, Path(sys.executable)) == ()


def test_the_facts_of_a_run_tell_what_the_candidate_brings(tmp_path: Path) -> None:
    config = fake_config(tmp_path)
    arms = arms_with(tmp_path, ("extra.py",))
    config = replace(config, subject=replace(config.subject, arms=arms))
    remarks = read_facts(config, CHANGE, external_model_name=None).node.remarks
    assert "The candidate brings 1 file of its own, and none of an installed name." in remarks
