"""A wheel that only the candidate gets: unpacked, checked, in front of what is installed."""

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from k3bundle.plan import Deployment
from k3runner.engine_command import engine_command
from k3runner.errors import MachineError, UsageError
from k3runner.subjects import load_subject
from k3runner.subjects.loading import overlay_digest
from k3runner.subjects.wheel_overlay import unpacked_wheel
from k3runner_testing.fake_subject import write_fake_subject

NAME = "fast_path-1.0-py3-none-any.whl"
INFO = "fast_path-1.0.dist-info"
FILES = {
    "fast_path/__init__.py": b"WHERE = 'wheel'\n",
    # Of a package that is installed as well.
    "aiohttp/__init__.py": b"__version__ = 'of the wheel'\n",
    f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: fast-path\nVersion: 1.0\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/entry_points.txt": b"[vllm.general_plugins]\nfast_path = fast_path:WHERE\n",
}
SEE = """
import importlib.metadata, json, aiohttp
plugins = importlib.metadata.entry_points(group="vllm.general_plugins")
found = {one.name: one.load() for one in plugins if one.name == "fast_path"}
print(json.dumps([found, aiohttp.__version__]))
"""


def record(files: Mapping[str, bytes]) -> bytes:
    rows = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(content)}\n")
    return "".join([*rows, f"{INFO}/RECORD,,\n"]).encode()


def write_wheel(folder: Path, files: Mapping[str, bytes], said: bytes | None = None) -> Path:
    path = folder / NAME
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{INFO}/RECORD", record(files) if said is None else said)
    return path


def subject_with(folder: Path, line: str) -> Path:
    path = write_fake_subject(folder)
    path.write_text(path.read_text("utf-8") + line, "utf-8")
    return path


def test_the_candidate_alone_gets_the_wheel_and_its_plugin(tmp_path: Path) -> None:
    write_wheel(tmp_path, FILES)
    subject = load_subject(str(subject_with(tmp_path, f'wheel = "{NAME}"\n')))
    seen = []
    for arm in subject.arms:
        command = engine_command(
            subject=subject,
            deployment=Deployment(name="default"),
            arm=arm,
            engine_python=Path(sys.executable),
            model_folder=tmp_path,
            port=1,
            inherited=os.environ,
            tools=tmp_path,
        )
        said = subprocess.run(
            [sys.executable, "-c", SEE],
            env=dict(command.environment),
            stdout=subprocess.PIPE,
            check=True,
        )
        seen.append(json.loads(said.stdout))
    assert seen[0][0] == {}
    assert seen[0][1] != "of the wheel"
    assert seen[1] == [{"fast_path": "wheel"}, "of the wheel"]
    candidate = subject.arms[1]
    assert candidate.overlay is not None
    assert candidate.spec.overlay_sha256 == overlay_digest(candidate.overlay)
    assert subject.arms[0].spec.overlay_sha256 is None


def test_it_is_unpacked_once_and_another_wheel_of_that_name_goes_beside_it(tmp_path: Path) -> None:
    first = unpacked_wheel(write_wheel(tmp_path, FILES))
    stamp = (first / "fast_path/__init__.py").stat().st_mtime_ns
    assert unpacked_wheel(tmp_path / NAME) == first
    assert (first / "fast_path/__init__.py").stat().st_mtime_ns == stamp
    changed = {**FILES, "fast_path/__init__.py": b"WHERE = 'elsewhere'\n"}
    second = unpacked_wheel(write_wheel(tmp_path, changed))
    assert second != first
    assert (first / "fast_path/__init__.py").read_bytes() == FILES["fast_path/__init__.py"]


@pytest.mark.parametrize("how", ["edited", "added", "taken away", "a link"])
def test_what_was_changed_after_it_was_unpacked_is_unpacked_anew(how: str, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, FILES)
    module = unpacked_wheel(wheel) / "fast_path/__init__.py"
    if how == "added":
        (module.parent / "evil.py").write_text("x")
    else:
        module.unlink()
    if how == "edited":
        module.write_text("WHERE = 'edited'\n")
    if how == "a link":
        module.symlink_to(tmp_path / NAME)
    folder = unpacked_wheel(wheel)
    assert module.read_bytes() == FILES["fast_path/__init__.py"]
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {*FILES, f"{INFO}/RECORD"}


def patched(wheel: Path, *, flags: int = 0, method: int = 0) -> Path:
    """The wheel with other words about its last file, in both of its headers."""
    content = bytearray(wheel.read_bytes())
    local, central = content.rindex(b"PK\x03\x04"), content.rindex(b"PK\x01\x02")
    for place in (local + 6, central + 8):
        content[place] |= flags
        content[place + 2] = method
    wheel.write_bytes(content)
    return wheel


def test_a_wheel_that_zipfile_cannot_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: it is encrypted"):
        unpacked_wheel(patched(write_wheel(tmp_path, FILES), flags=1))
    with pytest.raises(UsageError, match="cannot be read: That compression method"):
        unpacked_wheel(patched(write_wheel(tmp_path, FILES), method=99))
    with pytest.raises(UsageError, match="is no wheel: "):
        unpacked_wheel(patched(write_wheel(tmp_path, FILES), method=zipfile.ZIP_DEFLATED))


def test_a_subject_that_is_not_utf_8_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "subject.toml"
    path.write_bytes(b'name = "\xff"\n')
    with pytest.raises(UsageError, match="cannot be read: it is not UTF-8"):
        load_subject(str(path))


@pytest.mark.parametrize(
    ("files", "said", "words"),
    [
        ({**FILES, "../outside.py": b"x"}, None, "leads out of its folder"),
        ({**FILES, "/outside.py": b"x"}, None, "leads out of its folder"),
        ({**FILES, "fast_path/other.py": b"x"}, record(FILES), "which its RECORD lacks"),
        (
            {**FILES, "fast_path/__init__.py": b"WHERE = 'edited'\n"},
            record(FILES),
            "is not what its RECORD says",
        ),
        (FILES, b"".join(f"{name},,\n".encode() for name in FILES), "has no digest in its RECORD"),
        *(
            ({**FILES, name: b"x"}, record(FILES) + f"{name},,\n".encode(), "has no digest in its")
            for name in ("p/RECORD_evil.py", "RECORD.py", "p/RECORD", f"{INFO}/a/RECORD.jws")
        ),
        ({**FILES, "fast_path": b"x"}, None, "a file and a folder of one name"),
        (FILES, b"\xff,,\n", "its RECORD is not UTF-8"),
        (FILES, b"x" * 200_000 + b",,\n", "its RECORD is no CSV"),
    ],
)
def test_a_wheel_that_is_not_what_it_says_is_refused_and_leaves_nothing(
    files: Mapping[str, bytes], said: bytes | None, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        unpacked_wheel(write_wheel(tmp_path, files, said))
    assert not [path for path in tmp_path.rglob("*.py") if path.is_file()]
    assert not (tmp_path.parent / "outside.py").exists()


def test_what_is_no_wheel_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"no zip")
    with pytest.raises(UsageError, match="is no wheel: File is not a zip file"):
        unpacked_wheel(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("module.py", b"x")
    with pytest.raises(UsageError, match="it has 0 RECORD files"):
        unpacked_wheel(path)


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, FILES)
    (tmp_path / ".k3eval-wheels").write_text("a file")
    with pytest.raises(MachineError, match="cannot be unpacked beside itself"):
        unpacked_wheel(wheel)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('wheel = "none.whl"\n', "has the wheel .*none.whl, which is no such file"),
        ('wheel = "."\n', "which is no such file"),
        ('overlay = "none"\n', "has the overlay .*none, which is not a folder"),
        (f'overlay = "."\nwheel = "{NAME}"\n', "has an overlay and a wheel"),
    ],
)
def test_an_arm_with_a_wrong_overlay_is_a_sentence(line: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        load_subject(str(subject_with(tmp_path, line)))
