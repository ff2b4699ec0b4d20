"""Lays a candidate's code beside the installed engine: a folder, and a subject file that names it.

Nothing that is installed is touched. Both arms run from one environment, and so from one image: the
baseline as it is, the candidate with the folder before it on its PYTHONPATH.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Final

from k3runner.audit.git_objects import GitObjects
from k3runner.audit.hunks import RawChange
from k3runner.errors import MachineError, UsageError
from k3runner.subjects.definition import SubjectArm
from k3runner.subjects.loading import load_subject, shipped_subjects
from k3runner.subjects.wheel_overlay import unpacked_wheel
from k3runner.wording import plural

__all__ = ["Overlay", "overlaid_text", "overlay_of_commit", "overlay_of_wheel", "site_folders"]

_FOLDER: Final = "candidate"
_SUBJECT: Final = "subject.toml"
_ARM: Final = 'name = "candidate"\n'
_EMPTY_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""What git calls a tree without entries, in every repository."""
_LARGEST_BYTES: Final = 64 << 20
_NO_PACKAGES: Final = frozenset({"benchmarks", "docs", "examples", "test", "tests"})
_FILE_MODES: Final = {"100644": 0o644, "100755": 0o755}
_COMPILED: Final = "*.so"


@dataclass(frozen=True)
class Overlay:
    """What was laid out."""

    subject: Path
    """The subject file."""
    arm: SubjectArm
    """The candidate, with the folder and its digest."""
    remarks: tuple[str, ...]
    """What a person should know, in sentences."""


def overlaid_text(name: str) -> str:
    """The text of a shipped subject whose candidate has the folder.

    Args:
        name: Its name.

    Raises:
        UsageError: There is no such subject, or its candidate has code of its own already.
    """
    if name not in shipped_subjects():
        raise UsageError(
            f"No subject `{name}` comes with k3-eval.",
            f"Give one of {', '.join(shipped_subjects())}.",
        )
    text = (resources.files("k3runner.subjects") / f"{name}.toml").read_text("utf-8")
    if text.count(_ARM) != 1:
        raise UsageError(
            f"The subject {name} boots no engine with two arms.", "Give one that serves a model."
        )
    return text.replace(_ARM, f'{_ARM}overlay = "{_FOLDER}"\n')


def overlay_of_wheel(wheel: Path, subject: str, folder: Path) -> Overlay:
    """Unpack a wheel as the candidate's code; each file is checked against its RECORD.

    Args:
        wheel: The wheel.
        subject: Name of a shipped subject.
        folder: Where folder and subject file go; it must not hold them yet.

    Raises:
        UsageError: The wheel or subject is none, or the folder holds an overlay already.
        MachineError: Nothing can be written there.
    """
    text = overlaid_text(subject)
    if not wheel.is_file():
        raise UsageError(f"There is no wheel {wheel}.", "Correct --wheel.")
    # Beside the wheel nothing is written: it may lie where only its owner writes.
    with _laid_out(folder) as target, tempfile.TemporaryDirectory(dir=folder) as temporary:
        copy = Path(temporary) / wheel.name
        shutil.copyfile(wheel, copy)
        unpacked_wheel(copy).rename(target)
    return _finish(folder, text, ())


def overlay_of_commit(
    repository: Path,
    revision: str,
    subject: str,
    folder: Path,
    *,
    packages: tuple[str, ...] = (),
    sites: tuple[Path, ...] = (),
) -> Overlay:
    """Write the Python packages of a commit as the candidate's code.

    Only objects are read: no checkout, no filter, no hook. What the commit has compiled is not in
    it, so the compiled files of the installed package are linked to.

    Args:
        repository: A clone, with or without a work tree.
        revision: The commit.
        subject: Name of a shipped subject.
        folder: Where folder and subject file go; it must not hold them yet.
        packages: Folders of packages in the commit; none: those at its root or in `src`.
        sites: Folders in which the engine is installed.

    Raises:
        UsageError: There is no such commit, package or subject.
        MachineError: Nothing can be written there, or git is missing.
    """
    text = overlaid_text(subject)
    git = GitObjects(repository)
    sha = git.commit(revision, "--source")
    entries = git.changes(_EMPTY_TREE, sha)
    chosen = packages or _found_packages(entries)
    if not chosen:
        raise UsageError(
            f"Commit {sha} has no Python package at its root or in src.",
            "Name its folder with --package.",
        )
    remarks = []
    with _laid_out(folder) as target:
        for package in chosen:
            remarks += _write_package(git, entries, package, target)
            remarks += _link_compiled(target / PurePosixPath(package).name, sites)
    return _finish(folder, text, tuple(remarks))


def site_folders(engine_python: Path) -> tuple[Path, ...]:
    """Folders in which packages of an environment are installed; its Python is not resolved."""
    return tuple(sorted((engine_python.parent.parent / "lib").glob("python3*/site-packages")))


@contextmanager
def _laid_out(folder: Path) -> Iterator[Path]:
    """Makes the folder, gives the path of the overlay in it, and takes away what fails."""
    target = folder / _FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (_FOLDER, _SUBJECT):
            if (folder / name).exists():
                raise UsageError(f"{folder} holds {name} already.", "Give another folder as --out.")
        try:
            yield target
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise
    except OSError as error:
        raise MachineError(
            f"The overlay cannot be written to {folder}: {error.strerror or error}.",
            "Give a folder that you may write to, with room.",
        ) from error


def _found_packages(entries: Iterable[RawChange]) -> tuple[str, ...]:
    found = set()
    for entry in entries:
        folder = PurePosixPath(entry.path).parent
        inside = folder.parts[1:] if folder.parts[:1] == ("src",) else folder.parts
        is_mark = PurePosixPath(entry.path).name == "__init__.py"
        if is_mark and len(inside) == 1 and inside[0] not in _NO_PACKAGES:
            found.add(folder.as_posix())
    return tuple(sorted(found))


def _write_package(
    git: GitObjects, entries: Iterable[RawChange], package: str, target: Path
) -> list[str]:
    top = PurePosixPath(package)
    inside = [one for one in entries if PurePosixPath(one.path).is_relative_to(top)]
    files = [one for one in inside if one.new_mode in _FILE_MODES]
    if not files:
        raise UsageError(f"The commit has no folder {package}.", "Correct --package.")
    contents = git.blobs(tuple({one.new_blob for one in files}), _LARGEST_BYTES)
    for one in files:
        path = PurePosixPath(one.path).relative_to(top.parent)
        content = contents.get(one.new_blob)
        if content is None or ".." in path.parts:
            raise UsageError(
                f"{one.path} cannot be laid out: it is missing in this clone, larger than "
                f"{_LARGEST_BYTES >> 20} MiB, or leads out of its folder.",
                "Use a complete clone, or build a wheel.",
            )
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(content)
        (target / path).chmod(_FILE_MODES[one.new_mode])
    left = len(inside) - len(files)
    return [f"{plural(left, 'link or submodule')} of {package} left out."] if left else []


def _link_compiled(package: Path, sites: tuple[Path, ...]) -> list[str]:
    """Link to what only a build makes; name what else is installed and not in the commit."""
    linked, lacking = 0, []
    for site in sites:
        installed = site / package.name
        for path in sorted(installed.rglob("*")):
            target = package / path.relative_to(installed)
            if not path.is_file() or target.exists() or path.suffix == ".pyc":
                continue
            if path.match(_COMPILED):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(path)
                linked += 1
            else:
                lacking.append(path.relative_to(site).as_posix())
    said = []
    if linked:
        said.append(
            f"{plural(linked, 'compiled file')} of the installed {package.name} linked to: a "
            "change of compiled code needs a wheel."
        )
    if lacking:
        said.append(
            f"{plural(len(lacking), 'file')} of the installed {package.name} not in the commit, "
            f"and so not the candidate's: {', '.join(lacking[:5])}."
        )
    return said


def _finish(folder: Path, text: str, remarks: tuple[str, ...]) -> Overlay:
    path = folder / _SUBJECT
    path.write_text(text, "utf-8")
    (arm,) = (one for one in load_subject(str(path)).arms if one.overlay is not None)
    return Overlay(path, arm, remarks)
