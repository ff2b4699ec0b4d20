"""What an environment was made from, so that a second installation does only what changed.

A stamp lies inside its environment and is written last: an environment without one is not
complete, whatever else lies there.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Stamp", "file_digest", "read_stamp", "source_digest", "write_stamp"]

_NAME = "k3house-stamp.json"
_NOT_SOURCE = "__pycache__"


@dataclass(frozen=True)
class Stamp:
    """What an environment holds."""

    lock: str
    """Digest of the lock, the interpreter and the way of installing."""
    packages: dict[str, str]
    """Folder of one of our packages -> digest of the sources that were installed."""


def file_digest(*parts: bytes) -> str:
    """SHA-256 over parts, each with its length, so that no two lists of parts collide."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def source_digest(folder: Path, *, metadata_only: bool) -> str:
    """Digest of what a package is built from.

    Args:
        folder: The package's folder, with its pyproject.toml.
        metadata_only: Only the pyproject.toml counts: an editable install follows the sources.
    """
    paths = [folder / "pyproject.toml"]
    if not metadata_only and (folder / "src").is_dir():
        paths += sorted(
            path
            for path in (folder / "src").rglob("*")
            if path.is_file() and _NOT_SOURCE not in path.parts
        )
    parts: list[bytes] = []
    for path in paths:
        parts += [path.relative_to(folder).as_posix().encode(), path.read_bytes()]
    return file_digest(*parts)


def read_stamp(environment: Path) -> Stamp | None:
    """The stamp of an environment; None when there is none or it cannot be read."""
    try:
        content = json.loads((environment / _NAME).read_text())
        return Stamp(lock=content["lock"], packages=dict(content["packages"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(environment: Path, stamp: Stamp) -> None:
    """Write the stamp so that a reader finds the old or the new one, never half of one."""
    partial = environment / (_NAME + ".partial")
    partial.write_text(json.dumps(asdict(stamp), indent=1, sort_keys=True) + "\n")
    partial.replace(environment / _NAME)
