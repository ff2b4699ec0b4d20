from pathlib import Path

import pytest

from k3runner.errors import MachineError
from k3runner.run_folder import create_run_folder, hold, write_once

RUN_ID = "0123456789abcdef" * 2


def test_create_run_folder_is_named_by_time_and_run(tmp_path: Path) -> None:
    folder = create_run_folder(tmp_path / "runs", "2026-01-02T03:04:05.123456Z", RUN_ID)
    assert folder.name == "20260102T030405-01234567"
    assert (folder / "logs").is_dir()


def test_create_run_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(MachineError, match="cannot be made"):
        create_run_folder(tmp_path / "runs", "2026-01-02T03:04:05Z", RUN_ID)


def test_write_once_same_bytes_twice_is_fine_and_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_once(path, b"one")
    write_once(path, b"one")
    with pytest.raises(MachineError, match="holds something else"):
        write_once(path, b"two")
    assert path.read_bytes() == b"one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


def test_write_once_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be written"):
        write_once(tmp_path / "missing" / "plan.json", b"one")
    assert list(tmp_path.iterdir()) == []


def test_hold_is_free_again_after_its_holder(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(MachineError, match="Another runner"), hold(tmp_path):
        pass
    with hold(tmp_path):
        assert (tmp_path / ".lock").read_text() != ""
