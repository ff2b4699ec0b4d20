"""The file tree of an image as one digest, that anyone can compute inside it and outside of it.

Standard library only: `image/` computes the same digest of an image that nobody runs.

Inside a container there is more than the image: what the engine mounts, and what it writes so that
the container has a name and an address. Paths that every engine writes are left out on both sides;
what is mounted elsewhere is left out inside only, so a file of the image that something is mounted
over makes the digest another one.
"""

import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

__all__ = [
    "LEFT_OUT",
    "Entry",
    "UnreadableTreeError",
    "file_digest",
    "is_left_out",
    "mount_points",
    "read_tree",
    "tree_sha256",
]

LEFT_OUT: Final = frozenset(
    [
        *("dev", "proc", "run", "sys", "tmp"),
        *("etc/group", "etc/hostname", "etc/hosts", "etc/mtab", "etc/passwd", "etc/resolv.conf"),
        # Written anew where the driver of an accelerator is added at the start of a container.
        *("etc/ld.so.cache", ".dockerenv"),
        *("cache", "model", "results"),
    ]
)
"""Paths that are no part of the sealed tree, with everything below: container engines write them,
or users mount there."""

_CHUNK_BYTES: Final = 1 << 20
_MOST_READERS: Final = 16
_FILES_ALONE: Final = 2_000
"""A tree with no more files is read without other processes."""
_NO_DIGEST: Final = "-"
_SHOWN: Final = 3

Kind = Literal["file", "folder", "link"]


@dataclass(frozen=True, order=True)
class Entry:
    """One path of a tree. Times are no part of it: builders set them differently."""

    path: str
    """Relative to the root; bytes that are not UTF-8 as surrogates."""
    kind: Kind
    mode: int
    """Permission bits; 0o777 for a link, whose own bits mean nothing."""
    uid: int
    gid: int
    content: str
    """SHA-256 of a file, target of a link, empty for a folder."""


class UnreadableTreeError(Exception):
    """Some paths cannot be read as this user, so the tree has no digest."""


def is_left_out(path: str) -> bool:
    """Whether a path, relative to the root, is no part of the sealed tree."""
    parts = path.split("/")
    return any("/".join(parts[: count + 1]) in LEFT_OUT for count in range(len(parts)))


def tree_sha256(entries: Iterable[Entry]) -> str:
    """Digest of a tree.

    Folders count for what lies in them: one that holds neither file nor link does not, because
    container engines leave empty folders behind where something was mounted.
    """
    sealed = sorted(entry for entry in entries if not is_left_out(entry.path))
    digest = hashlib.sha256()
    for entry in _without_empty_folders(sealed):
        fields = (
            *(entry.path, entry.kind, f"{entry.mode:o}", str(entry.uid), str(entry.gid)),
            entry.content,
        )
        line = "\0".join(fields) + "\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _without_empty_folders(entries: list[Entry]) -> Iterator[Entry]:
    holding = {
        parent for entry in entries if entry.kind != "folder" for parent in _parents(entry.path)
    }
    return (entry for entry in entries if entry.kind != "folder" or entry.path in holding)


def _parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def mount_points(mountinfo: str) -> frozenset[str]:
    """Mount points, relative to the root, in the text of `/proc/self/mountinfo`; not `/` itself."""
    points = set()
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        # The kernel writes blanks and backslashes of a path as octal numbers.
        raw = fields[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        points.add(raw.encode("latin-1").decode("utf-8", "surrogateescape").lstrip("/"))
    return frozenset(points - {""})


def read_tree(root: Path, mounted: frozenset[str] = frozenset()) -> tuple[Entry, ...]:
    """The sealed tree below `root`, as files on disk.

    Args:
        root: Root of the tree; inside a container `/`.
        mounted: What is mounted below it, relative: left out, with links to such files, which the
            accelerator's runtime makes beside the libraries that it mounts.

    Raises:
        UnreadableTreeError: Something of it cannot be read as this user.
    """
    unreadable: list[str] = []
    found = dict(_walk(root, mounted, unreadable))
    sizes = {path: one.st_size for path, one in found.items() if stat.S_ISREG(one.st_mode)}
    digests: dict[str, str] = {}
    for path, digest in _digests(root, sizes).items():
        if digest is None:
            unreadable.append(path)
        else:
            digests[path] = digest
    if unreadable:
        names = ", ".join(f"/{path}" for path in sorted(unreadable)[:_SHOWN])
        raise UnreadableTreeError(
            f"{len(unreadable)} of its paths cannot be read as this user, for example {names}"
        )
    return tuple(_entries(root, found, digests, mounted))


def _walk(
    root: Path, mounted: frozenset[str], unreadable: list[str]
) -> Iterator[tuple[str, os.stat_result]]:
    def failed(error: OSError) -> None:
        unreadable.append(os.path.relpath(str(error.filename), root))

    for folder, folders, files in os.walk(root, onerror=failed):
        inside = os.path.relpath(folder, root)
        prefix = "" if inside == "." else f"{inside}/"
        for names in (folders, files):
            names[:] = sorted(
                name
                for name in names
                if prefix + name not in mounted and not is_left_out(prefix + name)
            )
            for name in names:
                path = prefix + name
                yield path, os.lstat(root / path)


def _entries(
    root: Path,
    found: Mapping[str, os.stat_result],
    digests: Mapping[str, str],
    mounted: frozenset[str],
) -> Iterator[Entry]:
    for path, status in found.items():
        owner = (status.st_uid, status.st_gid)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            if not _leads_to_mounted_file(root, path, mounted):
                # A Path would not keep the target as it is written.
                target = os.readlink(root / path)  # noqa: PTH115
                yield Entry(path, "link", 0o777, *owner, target)
        elif stat.S_ISDIR(status.st_mode):
            yield Entry(path, "folder", mode, *owner, "")
        elif path in digests:
            yield Entry(path, "file", mode, *owner, digests[path])


def _leads_to_mounted_file(root: Path, path: str, mounted: frozenset[str]) -> bool:
    if not mounted:
        return False
    target = Path(os.path.realpath(root / path))
    return os.path.relpath(target, root) in mounted and target.is_file()


def _digests(root: Path, sizes: Mapping[str, int]) -> dict[str, str | None]:
    """Path -> digest of its content; None where it cannot be read.

    An image has tens of thousands of small files, and what Python does for each of them takes
    longer than the hashing: so processes share them, the large files first.
    """
    paths = sorted(sizes, key=lambda path: (-sizes[path], path))
    if len(paths) <= _FILES_ALONE:
        return {path: _digest(root / path) for path in paths}
    readers = min(_MOST_READERS, 2 * (os.cpu_count() or 1), len(paths))
    shares = [paths[number::readers] for number in range(readers)]
    found: dict[str, str | None] = {}
    with ThreadPoolExecutor(max_workers=readers) as pool:
        for share in pool.map(lambda share: _read_apart(root, share), shares):
            found |= share
    return found


def _read_apart(root: Path, paths: list[str]) -> dict[str, str | None]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(root)],
        input=os.fsencode("\0".join(paths)),
        stdout=subprocess.PIPE,
        check=False,
    )
    said = done.stdout.decode("ascii").split()
    if done.returncode != 0 or len(said) != len(paths):
        raise UnreadableTreeError("a process that reads its files ended early")
    return {
        path: None if digest == _NO_DIGEST else digest
        for path, digest in zip(paths, said, strict=True)
    }


def _digest(path: Path) -> str | None:
    try:
        return file_digest(path)
    except OSError:
        return None


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _read_share() -> None:
    root = Path(sys.argv[1])
    for name in os.fsdecode(sys.stdin.buffer.read()).split("\0"):
        sys.stdout.write(f"{_digest(root / name) or _NO_DIGEST}\n")


if __name__ == "__main__":
    _read_share()
