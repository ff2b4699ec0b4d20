"""Files of the referee that change while an engine runs are found, whatever the trick."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from k3bundle.separation import SeparationRecord
from k3runner.separation.engine_user import OtherUser, SameUser
from k3runner.separation.guard import Guard, referee_files

SAME = SameUser("The runner is not root.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A referee's environment and records."""
    files = {
        "env/k3runner/run.py": "code\n",
        "env/k3runner/__pycache__/run.pyc": "byte code\n",
        "env/clock.py": "now\n",
        "run/cells.jsonl": "{}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def _during(
    folder: Path, act: Callable[[], object], user: OtherUser | SameUser = SAME
) -> SeparationRecord:
    guard = Guard(
        [folder / "env"],
        records=[folder / "run/cells.jsonl", folder / "run/later.jsonl"],
        places={str(folder): "<referee>"},
        clock_offset_s=lambda: 1000.0,
    )
    guard.begin()
    act()
    return guard.end("boot-0.0", user)


def _found(record: SeparationRecord) -> list[tuple[str, str]]:
    return [(one.path, one.kind) for one in record.alterations]


def test_nothing_changes_when_the_referee_only_appends(folder: Path) -> None:
    def append() -> None:
        with (folder / "run/cells.jsonl").open("a") as file:
            file.write("{}\n")
        (folder / "run/later.jsonl").write_text("{}\n")

    record = _during(folder, append)
    assert _found(record) == []
    assert (record.protected_files, record.engine_user, record.why_same) == (5, "same", SAME.reason)


def test_changed_added_and_removed_files_are_found(folder: Path) -> None:
    def act() -> None:
        (folder / "env/clock.py").write_text("then\n")
        (folder / "env/sitecustomize.py").write_text("evil\n")
        (folder / "env/k3runner/run.py").unlink()

    assert _found(_during(folder, act)) == [
        ("<referee>/env/clock.py", "content"),
        ("<referee>/env/k3runner/run.py", "removed"),
        ("<referee>/env/sitecustomize.py", "added"),
    ]


def test_a_write_that_is_undone_with_its_time_is_found(folder: Path) -> None:
    path = folder / "env/clock.py"

    def act() -> None:
        before = path.stat()
        path.write_text("evil")
        path.write_text("now\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert _found(_during(folder, act)) == [("<referee>/env/clock.py", "touched")]


def test_a_file_that_is_replaced_by_a_link_is_found(folder: Path) -> None:
    path = folder / "env/clock.py"

    def act() -> None:
        path.unlink()
        path.symlink_to("/dev/null")

    assert _found(_during(folder, act)) == [("<referee>/env/clock.py", "content")]


def test_another_name_for_a_file_counts_only_where_the_engine_could_write_it(
    folder: Path,
) -> None:
    path, cache = folder / "env/clock.py", folder / "cache"
    other = OtherUser(65534, 65534, "nobody")
    assert _found(_during(folder, lambda: cache.hardlink_to(path), other)) == []
    cache.unlink()
    linked = _during(folder, lambda: cache.hardlink_to(path))
    assert _found(linked) == [("<referee>/env/clock.py", "touched")]
    cache.unlink()

    def write_and_link() -> None:
        path.write_text("other")
        cache.hardlink_to(path)

    written = _during(folder, write_and_link, other)
    assert _found(written) == [("<referee>/env/clock.py", "content")]


def test_a_file_that_a_link_names_is_protected_too(folder: Path) -> None:
    shard = folder / "blobs/shard"
    shard.parent.mkdir()
    shard.write_text("weights")
    (folder / "env/model.safetensors").symlink_to(shard)
    (folder / "env/dangling").symlink_to(folder / "nowhere")
    assert _found(_during(folder, lambda: None)) == []
    changed = _during(folder, lambda: shard.write_text("other weights"))
    assert _found(changed) == [("<referee>/blobs/shard", "content")]


def test_permissions_that_are_opened_are_found(folder: Path) -> None:
    act = (folder / "env/clock.py").chmod
    record = _during(folder, lambda: act(0o666))
    assert _found(record) == [("<referee>/env/clock.py", "touched")]


def test_records_that_are_rewritten_are_found(folder: Path) -> None:
    path = folder / "run/cells.jsonl"
    for text in ('{"forged": 1}\n', "", "[]\n{}\n"):
        path.write_text("{}\n")
        record = _during(folder, lambda text=text: path.write_text(text))  # type: ignore[misc]
        assert _found(record) == [("<referee>/run/cells.jsonl", "records_rewritten")]


def test_byte_code_may_be_added_and_not_changed(folder: Path) -> None:
    cache = folder / "env/k3runner/__pycache__"
    assert _found(_during(folder, lambda: (cache / "new.pyc").write_text("x"))) == []
    changed = _during(folder, lambda: (cache / "run.pyc").write_text("evil"))
    assert _found(changed) == [("<referee>/env/k3runner/__pycache__/run.pyc", "content")]


def test_very_many_changes_are_counted(folder: Path) -> None:
    def act() -> None:
        for number in range(250):
            (folder / f"env/{number:03}.py").write_text("x")

    record = _during(folder, act)
    assert (len(record.alterations), record.alterations_left_out) == (200, 50)


def test_a_wall_clock_that_was_moved_is_measured(folder: Path) -> None:
    offsets = iter([1000.0, 1002.5])
    guard = Guard([], records=[], places={}, clock_offset_s=lambda: next(offsets))
    guard.begin()
    record = guard.end("boot-0.0", OtherUser(65534, 65534, "nobody"))
    assert record.wall_clock_shift_ms == 2500.0
    assert (record.engine_user, record.why_same) == ("other", None)


def test_a_guard_that_did_not_begin_cannot_end() -> None:
    with pytest.raises(AssertionError, match="began"):
        Guard([], records=[], places={}).end("boot-0.0", SAME)


def test_the_referee_protects_itself() -> None:
    files = referee_files()
    assert any(path.name == "k3runner" for path in files)
    assert any(path.name == "k3bundle" for path in files)
    assert Path("/etc/ld.so.preload") in files
    guard = Guard(files, records=[], places={})
    guard.begin()
    assert guard.end("boot-0.0", SAME).protected_files > 1000
