"""A wheel that only one arm gets, as the folder that goes on its PYTHONPATH.

A wheel is unpacked and not installed: nothing of the engine's environment changes, code of the
wheel comes before what is installed, and its entry points are found, so a plugin is a wheel too.
Every file must be the one that the wheel's own RECORD names, at every start anew.
"""

import base64
import csv
import hashlib
import io
import lzma
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from k3runner.errors import MachineError, UsageError

__all__ = ["unpacked_wheel"]

_FOLDER: Final = ".k3eval-wheels"
_MOST_BYTES: Final = 8 * 1024**3
_MOST_FILES: Final = 100_000
_DIGITS: Final = 16
_NEXT: Final = "Build the wheel again, or give another one."


def unpacked_wheel(wheel: Path) -> Path:
    """The folder of an unpacked wheel, beside it; made anew when it is not what it should be.

    Args:
        wheel: A `.whl` file.

    Raises:
        UsageError: It is no wheel, leads out of its folder, or is not what its RECORD says.
        MachineError: It cannot be unpacked there.
    """
    try:
        with wheel.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        folder = wheel.parent / _FOLDER / f"{wheel.stem}-{digest[:_DIGITS]}"
        with _broken_is_told(wheel), zipfile.ZipFile(wheel) as archive:
            _bring(archive, wheel, folder)
    except OSError as error:
        raise MachineError(
            f"The wheel {wheel} cannot be unpacked beside itself: {error.strerror or error}.",
            "Put it where you may write, or unpack it and name the folder as `overlay`.",
        ) from error
    return folder.resolve()


@contextmanager
def _broken_is_told(wheel: Path) -> Iterator[None]:
    """Makes a sentence of all that zipfile and csv raise about what they read."""
    try:
        yield
    except RuntimeError as error:
        # NotImplementedError is one: a compression that is not known.
        why = "it is encrypted" if "encrypted" in str(error) else str(error)
        raise UsageError(f"{wheel} cannot be read: {why.rstrip('.')}.", _NEXT) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{wheel} is no wheel: its RECORD is not UTF-8.", _NEXT) from error
    except csv.Error as error:
        raise UsageError(f"{wheel} is no wheel: its RECORD is no CSV: {error}.", _NEXT) from error
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, ValueError) as error:
        raise UsageError(f"{wheel} is no wheel: {str(error) or 'it ends early'}.", _NEXT) from error


def _bring(archive: zipfile.ZipFile, wheel: Path, folder: Path) -> None:
    """Unpacks all of it or nothing: temporary name, then rename.

    What was unpacked before is kept where it is the same, since a run may read it.
    """
    members = [one for one in archive.infolist() if not one.is_dir()]
    size = sum(one.file_size for one in members)
    if len(members) > _MOST_FILES or size > _MOST_BYTES:
        raise UsageError(
            f"{wheel} holds {len(members)} files of {size} bytes together; at most {_MOST_FILES} "
            f"of {_MOST_BYTES} are unpacked.",
            _NEXT,
        )
    recorded = _recorded(archive, wheel)
    folder.parent.mkdir(exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".part-"))
    try:
        for member in members:
            _write(archive, member, temporary, recorded, wheel)
        temporary.chmod(0o755)
        if folder.is_dir() and _files(folder) == _files(temporary):
            shutil.rmtree(temporary)
            return
        # Something was changed there after it was unpacked.
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _files(folder: Path) -> Mapping[str, str]:
    """Path -> digest, or where a link leads; what Python compiles there is left out."""
    found: dict[str, str] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file() and path.parent.name != "__pycache__":
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _recorded(archive: zipfile.ZipFile, wheel: Path) -> Mapping[str, str]:
    """Path -> digest as RECORD writes it; empty for RECORD itself and its signatures."""
    found = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
    if len(found) != 1 or found[0].count("/") != 1:
        raise UsageError(f"{wheel} is no wheel: it has {len(found)} RECORD files.", _NEXT)
    rows = csv.reader(io.StringIO(archive.read(found[0]).decode("utf-8")))
    # A row has a path, a digest and a size.
    return {row[0]: row[1] for row in rows if len(row) > 1}


def _write(
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    folder: Path,
    recorded: Mapping[str, str],
    wheel: Path,
) -> None:
    path = PurePosixPath(member.filename)
    if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
        raise UsageError(f"{wheel} leads out of its folder: {member.filename!a}.", _NEXT)
    if member.filename not in recorded:
        raise UsageError(f"{wheel} holds {member.filename!a}, which its RECORD lacks.", _NEXT)
    target = folder / path
    digest = hashlib.sha256()
    with archive.open(member) as source, _new_file(target, member, wheel) as file:
        while piece := source.read(1 << 20):
            digest.update(piece)
            file.write(piece)
    expected = recorded[member.filename]
    actual = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    if expected and expected != f"sha256={actual}":
        raise UsageError(f"{member.filename!a} of {wheel} is not what its RECORD says.", _NEXT)
    if not expected and not _is_record(path):
        raise UsageError(f"{member.filename!a} of {wheel} has no digest in its RECORD.", _NEXT)


def _new_file(target: Path, member: zipfile.ZipInfo, wheel: Path) -> BinaryIO:
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        return target.open("xb")
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(
            f"{wheel} holds {member.filename!a} twice, or a file and a folder of one name.", _NEXT
        ) from error


def _is_record(path: PurePosixPath) -> bool:
    """Whether it is the RECORD or a signature of it: these alone can have no digest there."""
    names = ("RECORD", "RECORD.jws", "RECORD.p7s")
    folder = path.parts[0]
    return len(path.parts) == 2 and folder.endswith(".dist-info") and path.name in names  # noqa: PLR2004
