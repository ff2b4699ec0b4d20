"""A candidate's code beside the installed engine: from a wheel or a commit, never over it."""

import base64
import hashlib
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from k3runner.cli import run_command_line
from k3runner.errors import MachineError, UsageError
from k3runner.subjects import load_subject
from k3runner.subjects.candidate_overlay import overlay_of_commit, overlay_of_wheel, site_folders
from k3runner.subjects.loading import overlay_digest

INFO = "engine-1.0.dist-info"


def write_wheel(folder: Path, files: Mapping[str, bytes]) -> Path:
    rows = [
        f"{name},sha256="
        f"{base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},"
        for name, content in files.items()
    ]
    path = folder / "engine-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{INFO}/RECORD", "\n".join([*rows, f"{INFO}/RECORD,,"]) + "\n")
    return path


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """Python of an environment with an engine of two modules and a compiled one."""
    site = tmp_path / "env/lib/python3.11/site-packages/engine"
    site.mkdir(parents=True)
    for name, text in (("__init__.py", ""), ("step.py", "old"), ("made.py", ""), ("_c.so", "elf")):
        (site / name).write_text(text)
    return tmp_path / "env/bin/python"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with a package at its root, its tests, and a link."""
    folder = tmp_path / "clone"
    for name, text in (
        ("engine/__init__.py", ""),
        ("engine/step.py", "new"),
        ("engine/tool.sh", "#!/bin/sh\n"),
        ("tests/__init__.py", ""),
        ("setup.py", ""),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "engine/tool.sh").chmod(0o755)
    (folder / "engine/link.py").symlink_to("/etc/passwd")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "x")):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *command],
            cwd=folder,
            check=True,
        )
    # What is not committed is not the candidate's.
    (folder / "engine/step.py").write_text("dirty")
    return folder


def files_of(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_a_wheel_becomes_the_candidate_s_folder(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"engine/step.py": b"new"})
    out = tmp_path / "out"
    found = overlay_of_wheel(wheel, "k3-tiny", out)
    assert sorted(path.name for path in out.iterdir()) == ["candidate", "subject.toml"]
    assert (out / "candidate/engine/step.py").read_bytes() == b"new"
    subject = load_subject(str(found.subject))
    baseline, candidate = subject.arms
    assert subject.name == "k3-tiny"
    assert baseline.overlay is None
    assert candidate.overlay == (out / "candidate").resolve()
    assert candidate.spec.overlay_sha256 == overlay_digest(out / "candidate")
    assert candidate.spec.engine_arguments == load_subject("k3-tiny").arms[1].spec.engine_arguments
    # Nothing is left beside the wheel.
    assert not (tmp_path / ".k3eval-wheels").exists()


def test_a_commit_becomes_the_candidate_s_folder(tmp_path: Path, clone: Path, engine: Path) -> None:
    found = overlay_of_commit(clone, "HEAD", "k3-tiny", tmp_path / "o", sites=site_folders(engine))
    laid = tmp_path / "o/candidate"
    assert files_of(laid) == [
        *("engine/__init__.py", "engine/_c.so", "engine/step.py", "engine/tool.sh"),
    ]
    assert (laid / "engine/step.py").read_text() == "new"
    assert (laid / "engine/tool.sh").stat().st_mode & 0o777 == 0o755
    assert (laid / "engine/_c.so").readlink() == engine.parents[1] / (
        "lib/python3.11/site-packages/engine/_c.so"
    )
    assert (engine.parents[1] / "lib/python3.11/site-packages/engine/step.py").read_text() == "old"
    links, compiled, lacking = found.remarks
    assert links == "1 link or submodule of engine left out."
    assert compiled.startswith("1 compiled file of the installed engine linked to")
    assert lacking.endswith("and so not the candidate's: engine/made.py.")


def test_a_package_below_src_or_by_name_is_found(tmp_path: Path, clone: Path) -> None:
    subprocess.run(["git", "mv", "engine", "tests/engine"], cwd=clone, check=True)
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qam", "y"],
        cwd=clone,
        check=True,
    )
    with pytest.raises(UsageError, match="has no Python package at its root or in src"):
        overlay_of_commit(clone, "HEAD", "k3-tiny", tmp_path / "one")
    overlay_of_commit(clone, "HEAD", "k3-tiny", tmp_path / "two", packages=("tests/engine",))
    assert (tmp_path / "two/candidate/engine/__init__.py").is_file()
    with pytest.raises(UsageError, match="The commit has no folder nothing"):
        overlay_of_commit(clone, "HEAD", "k3-tiny", tmp_path / "three", packages=("nothing",))
    assert not (tmp_path / "three/candidate").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Say --wheel FILE or --source DIR@REV"),
        (["--wheel", "a.whl", "--source", "b@c"], "Say --wheel FILE or --source DIR@REV"),
        (["--wheel", "nothing.whl"], "There is no wheel nothing.whl"),
        (["--source", "HEAD"], "--source must look like DIR@REV"),
        (["--source", "nowhere@HEAD"], "found none at nowhere"),
        (["--wheel", "x.whl", "--subject", "k4"], "No subject `k4` comes with k3-eval"),
    ],
)
def test_what_is_mistyped_is_a_sentence(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["image", "overlay", "--out", "out", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_folder_in_use_and_one_that_cannot_be_made_are_sentences(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, {"engine/step.py": b"new"})
    overlay_of_wheel(wheel, "k3-tiny", tmp_path / "out")
    with pytest.raises(UsageError, match="holds candidate already"):
        overlay_of_wheel(wheel, "k3-tiny", tmp_path / "out")
    with pytest.raises(MachineError, match="cannot be written to"):
        overlay_of_wheel(wheel, "k3-tiny", wheel / "below")


def test_the_command_says_what_differs_and_where_the_subject_is(
    tmp_path: Path, clone: Path, engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["image", "overlay", "--source", f"{clone}@HEAD", "--out", str(out)]
    assert run_command_line([*words, "--engine-python", str(engine)]) == 0
    said = capsys.readouterr()
    assert said.out.split() == [f"{out}/subject.toml", overlay_digest(out / "candidate")]
    assert "and 1 of these differs" in said.err
    assert "unlike what is installed: engine/step.py." in said.err
