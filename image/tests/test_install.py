"""What the build takes away, and what it refuses."""

from pathlib import Path
from types import ModuleType


def test_what_the_installer_notes_of_files_is_taken_away(
    install: ModuleType, tmp_path: Path
) -> None:
    information = tmp_path / "lib" / "python3.11" / "site-packages" / "a-1.dist-info"
    information.mkdir(parents=True)
    kept = "a.py,sha256=x,1\na-1.dist-info/METADATA,sha256=y,2\na-1.dist-info/RECORD,,\n"
    (information / "RECORD").write_text(f"a-1.dist-info/uv_cache.json,sha256=z,9\n{kept}")
    for name in ("uv_cache.json", "METADATA"):
        (information / name).write_text("{}")
    install._forget_times(tmp_path)
    assert sorted(path.name for path in information.iterdir()) == ["METADATA", "RECORD"]
    assert (information / "RECORD").read_text() == kept


def test_a_path_that_only_root_can_read_is_named(install: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "file").touch(mode=0o644)
    (tmp_path / "open").chmod(0o755)
    assert install.closed_paths(tmp_path) == []
    (tmp_path / "open" / "file").chmod(0o640)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("nothing")
    assert install.closed_paths(tmp_path) == [f"{tmp_path}/closed", f"{tmp_path}/open/file"]
