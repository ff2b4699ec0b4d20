"""What a container says when its launcher forgot something, and what it becomes otherwise."""

import importlib.util
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import pytest

from k3runner.cli import run_command_line


def _load(root: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, root / "image" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def entry(root: Path) -> ModuleType:
    return _load(root, "entry")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--tier", "smoke"], True),
        (["run", "--tier", "smoke"], True),
        (["--tier=smoke"], True),
        (["run", "--help"], False),
        (["--version"], False),
        (["verify", "x"], False),
        (["doctor"], False),
    ],
)
def test_only_an_evaluation_is_held_up(
    entry: ModuleType, arguments: list[str], expected: bool
) -> None:
    assert entry.runs(arguments) is expected


def test_a_run_without_a_change_is_about_the_image_s_commit(entry: ModuleType) -> None:
    commit = "a" * 40
    assert entry.with_change(["--tier", "smoke"], commit) == [
        *("--tier", "smoke", "--repository", "local/k3-eval", "--pull-request", "1"),
        *("--commit", commit),
    ]
    own = ["--repository=a/b", "--pull-request", "7", "--commit", commit]
    assert entry.with_change(own, "b" * 40) == own


def _lacking(
    entry: ModuleType,
    tmp_path: Path,
    *arguments: str,
    flavour: str = "cpu",
    mounted: bool = True,
) -> str:
    model = tmp_path / "model"
    found = entry.lacking(
        flavour,
        list(arguments),
        str(model),
        results=tmp_path / "results",
        devices=tmp_path / "dev",
        is_mounted=lambda _: mounted,
    )
    return str(found)


def test_what_is_there_holds_nothing_up(entry: ModuleType, tmp_path: Path) -> None:
    for name in ("results", "dev", "model"):
        (tmp_path / name).mkdir()
    (tmp_path / "model" / "config.json").touch()
    (tmp_path / "dev" / "nvidia0").touch()
    assert _lacking(entry, tmp_path, "--tier", "smoke") == "None"
    assert _lacking(entry, tmp_path, "--tier", "full", flavour="gpu") == "None"


def test_a_missing_mount_is_a_sentence(entry: ModuleType, tmp_path: Path) -> None:
    said = _lacking(entry, tmp_path, "--tier", "smoke")
    assert said.startswith(f"There is no {tmp_path}/results. Mount a folder")
    assert "-v " in said


def test_results_that_would_go_with_the_container_are_a_sentence(
    entry: ModuleType, tmp_path: Path
) -> None:
    for name in ("results", "model"):
        (tmp_path / name).mkdir()
    (tmp_path / "model" / "config.json").touch()
    said = _lacking(entry, tmp_path, "--tier", "smoke", mounted=False)
    assert said.startswith(f"Nothing is mounted at {tmp_path}/results: all would go with the")
    assert "-v " in said
    assert _lacking(entry, tmp_path, "--runs", "/elsewhere", mounted=False) == "None"
    # What decides by itself knows a folder from a mount.
    assert entry.lacking("cpu", [], str(tmp_path / "model"), results=tmp_path / "results") == said


def test_a_folder_of_another_user_is_a_sentence(
    entry: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").mkdir()

    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(entry.tempfile, "TemporaryFile", refuse)
    said = _lacking(entry, tmp_path, "--tier", "smoke")
    assert said.startswith(f"Nothing can be written to {tmp_path}/results. Mount a folder")
    assert f"this is user {os.getuid()}" in said


def test_a_full_disk_is_a_sentence(
    entry: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "results").mkdir()
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(entry.shutil, "disk_usage", lambda _: usage(9, 9, 5 << 20))
    said = _lacking(entry, tmp_path, "--tier", "smoke")
    assert "is full: 5 MiB are free and 256 MiB are needed" in said


def test_no_gpu_and_no_model_are_sentences(entry: ModuleType, tmp_path: Path) -> None:
    for name in ("results", "dev"):
        (tmp_path / name).mkdir()
    assert _lacking(entry, tmp_path, "--tier", "full", flavour="gpu").startswith(
        "This container has no GPU. Start it with --gpus all"
    )
    (tmp_path / "dev" / "nvidia0").touch()
    assert _lacking(entry, tmp_path, "--tier", "full", flavour="gpu").startswith(
        f"There is no model at {tmp_path}/model."
    )
    assert _lacking(entry, tmp_path, "--engine-url", "x", flavour="gpu") == "None"


def test_what_the_entry_calls_a_flag_the_referee_knows(
    entry: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    for flag in (*entry.CHANGE, "--runs", "--model", "--engine-url"):
        assert flag in shown


def test_the_store_and_the_database_ask_for_their_secrets(root: Path, tmp_path: Path) -> None:
    store = _load(root, "start_store")
    found = store.identities("key", "secret")["identities"][0]["credentials"]
    assert found == [{"accessKey": "key", "secretKey": "secret"}]
    done = subprocess.run(
        [sys.executable, root / "image" / "start_store.py"],
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set" in done.stderr
