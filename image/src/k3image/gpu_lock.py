"""The gpu flavour's locks: one per machine, resolved without downloading, checked for collisions.

uv resolves and names the wheel of each package that fits the machine, with address and digest; the
lists of files at the ends of those wheels are then read, a few kilobytes of gigabytes, to find two
wheels that own one path: what is imported would depend on which was installed last.
"""

import io
import ssl
import subprocess
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from k3image.problem import EXIT_INPUT, ImageError

__all__ = [
    "ALLOWED",
    "RemoteFile",
    "Wheel",
    "check_collisions",
    "collisions",
    "lock_text",
    "pin_gpu",
    "resolve",
    "wheels_of",
]

ALLOWED: Final = frozenset({"build_backend.py"})
"""Paths that two wheels may own: a leftover of how they were built, which nothing imports."""
_GLIBC: Final = "2_35"
_TAIL_BYTES: Final = 1 << 18
_READ_S: Final = 60
_READERS: Final = 8


@dataclass(frozen=True)
class Wheel:
    """One wheel, as the index offers it."""

    package: str
    version: str
    url: str
    size: int
    sha256: str


def resolve(asked: Path, uv: Path, machine: str) -> str:
    """The closure of `asked` for CPython 3.11 on one machine, as uv writes it.

    Raises:
        ImageError: It cannot be resolved, or a package has no wheel there.
    """
    command = [
        *(str(uv), "pip", "compile", str(asked), "--quiet", "--no-config", "--no-header"),
        *("--python-version", "3.11", "--python-platform", f"{machine}-manylinux_{_GLIBC}"),
        *("--only-binary", ":all:", "--format", "pylock.toml", "--no-annotate"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImageError(
            f"{asked.name} cannot be resolved for {machine}: {done.stderr.strip()[:600]}",
            "correct the input, or wait until the index can be reached.",
            EXIT_INPUT,
        )
    return done.stdout


def wheels_of(resolved: str) -> tuple[Wheel, ...]:
    """The wheels of a resolution; the first of each package is the one that is installed.

    Raises:
        ImageError: A package has no wheel.
    """
    found = []
    for package in tomllib.loads(resolved)["packages"]:
        offered: list[dict[str, Any]] = package.get("wheels", [])
        if not offered:
            raise ImageError(
                f"{package['name']} {package['version']} has no wheel for this machine.",
                "pin another version in gpu.in.",
                EXIT_INPUT,
            )
        found += [
            Wheel(
                package["name"],
                package["version"],
                one["url"],
                one["size"],
                one["hashes"]["sha256"],
            )
            for one in offered
        ]
    return tuple(found)


def lock_text(wheels: Iterable[Wheel]) -> str:
    """A lock of these wheels: every package with the digests of its files on this machine."""
    digests: dict[str, list[str]] = {}
    for wheel in wheels:
        digests.setdefault(f"{wheel.package}=={wheel.version}", []).append(wheel.sha256)
    return "".join(
        " \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in sorted(digests[pin]))])
        + "\n"
        for pin in sorted(digests)
    )


class RemoteFile(io.RawIOBase):
    """A file on a server, of which only the asked ranges are read; the end of it in one piece."""

    def __init__(self, url: str, size: int) -> None:
        """Note where it is; nothing is read yet."""
        self._url = url
        self._size = size
        self._at = 0
        self._tail: bytes | None = None
        self._tail_from = max(0, size - _TAIL_BYTES)

    def seekable(self) -> bool:
        """A file can be read anywhere."""
        return True

    def readable(self) -> bool:
        """It can be read."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset from the start, from here, or from the end."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        """Read up to `size` bytes; all that is left for a negative number."""
        end = self._size if size < 0 else min(self._size, self._at + size)
        start, self._at = self._at, end
        if end <= start:
            return b""
        if start < self._tail_from:
            return self._fetch(start, end)
        if self._tail is None:
            self._tail = self._fetch(self._tail_from, self._size)
        return self._tail[start - self._tail_from : end - self._tail_from]

    def _fetch(self, start: int, end: int) -> bytes:
        request = urllib.request.Request(  # noqa: S310
            self._url, headers={"Range": f"bytes={start}-{end - 1}"}
        )
        context = ssl.create_default_context()
        with urllib.request.urlopen(  # noqa: S310
            request, timeout=_READ_S, context=context
        ) as answer:
            content: bytes = answer.read(end - start + 1)
        if len(content) != end - start:
            raise OSError(f"{self._url} gave {len(content)} bytes of {end - start}")
        return content


def collisions(listed: dict[str, dict[str, int]]) -> list[str]:
    """Paths that two packages own with different content, as sentences.

    Args:
        listed: Package -> path -> checksum of its content.
    """
    owners: dict[str, list[tuple[str, int]]] = {}
    for package, paths in listed.items():
        for path, checksum in paths.items():
            owners.setdefault(path, []).append((package, checksum))
    return [
        f"{path} is in {' and '.join(name for name, _ in who)}, with different content"
        for path, who in sorted(owners.items())
        if path not in ALLOWED and len({checksum for _, checksum in who}) > 1
    ]


def check_collisions(wheels: Iterable[Wheel]) -> tuple[int, int]:
    """Read what is in every wheel, and refuse two that own one path with different content.

    Returns:
        Numbers of wheels and of paths.

    Raises:
        ImageError: Two do, or a wheel cannot be read.
    """
    first: dict[str, Wheel] = {}
    for wheel in wheels:
        first.setdefault(wheel.package, wheel)
    try:
        with ThreadPoolExecutor(_READERS) as pool:
            listed = dict(zip(first, pool.map(_paths, first.values()), strict=True))
    except (OSError, zipfile.BadZipFile) as error:
        raise ImageError(
            f"The list of files of a wheel cannot be read: {error}.", "try again later."
        ) from error
    found = collisions(listed)
    if found:
        raise ImageError(
            f"{len(found)} paths are in two wheels: {'; '.join(found[:5])}.",
            "pin versions in gpu.in that do not overwrite each other.",
            EXIT_INPUT,
        )
    return len(listed), sum(map(len, listed.values()))


def _paths(wheel: Wheel) -> dict[str, int]:
    remote = RemoteFile(wheel.url, wheel.size)
    with zipfile.ZipFile(remote) as archive:
        return {
            one.filename: one.CRC
            for one in archive.infolist()
            if not one.is_dir() and ".dist-info/" not in one.filename
        }


def pin_gpu(folder: Path, uv: Path, machine: str) -> str:
    """Resolve the gpu flavour for one machine, check for collisions, and write its lock.

    Returns:
        What was found, in a sentence.

    Raises:
        ImageError: It does not resolve, or two wheels own one path.
    """
    wheels = wheels_of(resolve(folder / "gpu.in", uv, machine))
    packages, paths = check_collisions(wheels)
    (folder / f"gpu-{machine}.txt").write_text(lock_text(wheels))
    return f"{machine}: {packages} wheels with {paths} paths, none of them owned twice."
