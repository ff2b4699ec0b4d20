"""Installation: only what is missing or changed, and never half of it."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from k3house import install as installing
from k3house.child import ToolFailedError
from k3house.environments import Environment
from k3house.problem import HouseError
from k3house.stamp import Stamp, read_stamp, source_digest, write_stamp

LOCK_TEXT = "six==1.17.0 \\\n    --hash=sha256:00\n"


@dataclass
class Tools:
    """Stands in for the installer: makes the folder that it is asked for, and can fail."""

    fail_at: str | None = None
    said: str = "No space left on device"
    calls: list[str] = field(default_factory=list)

    def run(self, command: Sequence[str | Path], **_: object) -> str:
        words = [str(word) for word in command]
        line = " ".join(words)
        self.calls.append(line)
        if self.fail_at and self.fail_at in line:
            raise ToolFailedError(words, 1, self.said)
        if "--relocatable" in words:
            (Path(words[-1]) / "bin").mkdir(parents=True)
        if "hatchling" in words:
            built = Path(words[words.index("-d") + 1])
            built.mkdir(parents=True)
            (built / "ours-0.1.0-py3-none-any.whl").touch()
        return ""

    def said_install(self) -> int:
        return sum("--require-hashes" in call and "--dry-run" not in call for call in self.calls)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one package and one environment, and an installer that is there."""
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "small.txt").write_text(LOCK_TEXT)
    for name in ("uv", "build"):
        (tmp_path / "locks" / f"{name}.txt").write_text(LOCK_TEXT)
    (tmp_path / "ours" / "src").mkdir(parents=True)
    (tmp_path / "ours" / "pyproject.toml").write_text("")
    (tmp_path / "ours" / "src" / "a.py").write_text("A = 1\n")
    small = Environment("small", "small", packages=("ours",))
    monkeypatch.setattr(installing, "ROOT", tmp_path)
    monkeypatch.setattr(installing, "LOCKS", tmp_path / "locks")
    monkeypatch.setattr(installing, "ENVS", tmp_path / "env")
    monkeypatch.setattr(installing, "WHEELS_BUILT", tmp_path / "wheels")
    monkeypatch.setattr("k3house.machine.HOUSE", tmp_path)
    monkeypatch.setattr(installing, "in_order", lambda _: (small,))
    return tmp_path


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    made = Tools()
    monkeypatch.setattr(installing, "run_tool", made.run)
    return made


def test_second_installation_runs_no_tool(house: Path, tools: Tools) -> None:
    installing.install({"small"}, wheels=None)
    assert tools.said_install() == 1
    tools.calls.clear()
    installing.install({"small"}, wheels=None)
    assert tools.calls == []
    assert installing.stale({"small"}) == []


def test_changed_source_installs_only_our_wheel(house: Path, tools: Tools) -> None:
    installing.install({"small"}, wheels=None)
    tools.calls.clear()
    (house / "ours" / "src" / "a.py").write_text("A = 2\n")
    installing.install({"small"}, wheels=None)
    assert tools.said_install() == 0
    assert sum(".whl" in call for call in tools.calls) == 1


def test_changed_lock_makes_the_environment_again(house: Path, tools: Tools) -> None:
    installing.install({"small"}, wheels=None)
    (house / "env" / "small" / "left-over").touch()
    (house / "locks" / "small.txt").write_text(LOCK_TEXT + "# new\n")
    installing.install({"small"}, wheels=None)
    assert not (house / "env" / "small" / "left-over").exists()


def test_environment_without_a_stamp_is_not_complete(house: Path, tools: Tools) -> None:
    (house / "env" / "small" / "bin").mkdir(parents=True)
    assert installing.stale({"small"}) == ["small"]


@pytest.mark.parametrize("moment", ["--relocatable", "--require-hashes", "hatchling", ".whl"])
def test_failure_at_any_moment_leaves_the_old_environment_whole(
    house: Path, tools: Tools, moment: str
) -> None:
    installing.install({"small"}, wheels=None)
    before = read_stamp(house / "env" / "small")
    (house / "locks" / "small.txt").write_text(LOCK_TEXT + "# new\n")
    tools.fail_at = moment
    with pytest.raises(HouseError, match="The disk filled up while installing the small"):
        installing.install({"small"}, wheels=None)
    assert read_stamp(house / "env" / "small") == before
    tools.fail_at = None
    installing.install({"small"}, wheels=None)
    assert installing.stale({"small"}) == []


def test_interrupted_update_is_seen(house: Path, tools: Tools) -> None:
    installing.install({"small"}, wheels=None)
    (house / "ours" / "src" / "a.py").write_text("A = 2\n")
    tools.fail_at = ".whl"
    with pytest.raises(HouseError):
        installing.install({"small"}, wheels=None)
    stamp = read_stamp(house / "env" / "small")
    assert stamp is not None
    assert stamp.packages == {}


def test_no_room_is_said_before_anything_is_downloaded(
    house: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = Environment("small", "small", needs_bytes=1 << 60)
    monkeypatch.setattr(installing, "in_order", lambda _: (huge,))
    with pytest.raises(HouseError, match=r"No room for the environments: 1152921504\.6 GB") as told:
        installing.install({"small"}, wheels=None)
    assert told.value.exit_code == 5
    assert tools.calls == []


def test_stamp_that_cannot_be_read_counts_as_none(tmp_path: Path) -> None:
    write_stamp(tmp_path, Stamp("a", {"b": "c"}))
    assert read_stamp(tmp_path) == Stamp("a", {"b": "c"})
    (stamp,) = tmp_path.iterdir()
    stamp.write_text('{"lock": "a"')
    assert read_stamp(tmp_path) is None


def test_source_digest_sees_names_content_and_nothing_that_python_made(tmp_path: Path) -> None:
    (tmp_path / "src" / "__pycache__").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("")
    first = source_digest(tmp_path, metadata_only=False)
    (tmp_path / "src" / "__pycache__" / "a.pyc").write_bytes(b"x")
    assert source_digest(tmp_path, metadata_only=False) == first
    (tmp_path / "src" / "a.py").write_text("")
    assert source_digest(tmp_path, metadata_only=False) != first
    assert source_digest(tmp_path, metadata_only=True) == first


def test_old_python_gets_a_sentence() -> None:
    house = Path(installing.__file__).parents[1] / "house.py"
    script = (
        "import runpy, sys; sys.version_info = (3, 8, 18); "
        f"runpy.run_path({str(house)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 5
    assert done.stderr.startswith("k3-eval: needs Python 3.11 or newer, and this is 3.8 at ")
    assert len(done.stderr.splitlines()) == 1
