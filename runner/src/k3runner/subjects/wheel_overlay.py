"""A wheel that only one arm gets, as the folder that goes on its PYTHONPATH.

A wheel is unpacked and not installed: nothing of the engine's environment changes, code of the
wheel comes before what is installed, and its entry points are found, so a plugin is a wheel too.
Every file must be the one that the wheel's own RECORD names.
"""

import base64
import csv
import hashlib
import io
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from k3runner.errors import MachineError, UsageError

__all__ = ["unpacked_wheel"]

_FOLDER: Final = ".k3eval-wheels"
_MOST_BYTES: Final = 8 * 1024**3
_MOST_FILES: Final = 100_000
_DIGITS: Final = 16
_NEXT: Final = "Build the wheel again, or give another one."


def unpacked_wheel(wheel: Path) -> Path:
    """The folder of an unpacked wheel, beside it; made when it is not there.

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
        if not folder.is_dir():
            with zipfile.ZipFile(wheel) as archive:
                _unpack(archive, wheel, folder)
    except zipfile.BadZipFile as error:
        raise UsageError(f"{wheel} is no wheel: {error}.", _NEXT) from error
    except OSError as error:
        raise MachineError(
            f"The wheel {wheel} cannot be unpacked beside itself: {error.strerror or error}.",
            "Put it where you may write, or unpack it and name the folder as `overlay`.",
        ) from error
    return folder.resolve()


def _unpack(archive: zipfile.ZipFile, wheel: Path, folder: Path) -> None:
    """Unpacks all of it or nothing: temporary name, then rename."""
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
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


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
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    digest = hashlib.sha256()
    with archive.open(member) as source, target.open("wb") as file:
        while piece := source.read(1 << 20):
            digest.update(piece)
            file.write(piece)
    expected = recorded[member.filename]
    actual = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    if expected and expected != f"sha256={actual}":
        raise UsageError(f"{member.filename!a} of {wheel} is not what its RECORD says.", _NEXT)
    if not expected and not path.name.startswith("RECORD"):
        raise UsageError(f"{member.filename!a} of {wheel} has no digest in its RECORD.", _NEXT)
