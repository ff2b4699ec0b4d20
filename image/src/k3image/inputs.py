"""Every input of a build, as `inputs.toml` names it, and the check that a file is that input."""

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from k3image.problem import EXIT_INPUT, EXIT_USAGE, ImageError

__all__ = [
    "ARCHITECTURES",
    "DebianPackage",
    "Flavour",
    "Inputs",
    "Lock",
    "check_file",
    "digest_of",
    "read_inputs",
]

ARCHITECTURES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's name of an architecture, which is also the image format's -> the kernel's."""
_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class DebianPackage:
    """One Debian package of one architecture."""

    name: str
    version: str
    architecture: str
    """Architecture of the base that it is for, also where the package fits all of them."""
    file: str
    """Path below the mirror's root."""
    size: int
    """Bytes."""
    sha256: str
    sets: tuple[str, ...]
    """Sets of packages that it is in."""


@dataclass(frozen=True)
class Lock:
    """A hashed list of wheels."""

    file: str
    """Path in the repository."""
    sha256: str


@dataclass(frozen=True)
class Flavour:
    """What one image is made of."""

    name: str
    packages: str
    """Set of Debian packages."""
    architectures: tuple[str, ...]
    environments: dict[str, str]
    """Environment -> lock; `{machine}` stands for the kernel's name of the architecture."""
    own: dict[str, tuple[str, ...]]
    """Environment -> folders of our own packages."""

    def locks(self, machine: str) -> tuple[str, ...]:
        """Locks of this flavour on one architecture, by the kernel's name."""
        return tuple(lock.format(machine=machine) for lock in self.environments.values())


@dataclass(frozen=True)
class Inputs:
    """The data file."""

    suite: str
    roots: dict[str, tuple[str, ...]]
    """Set of Debian packages -> what it was resolved from."""
    builders: dict[str, str]
    """Program -> version that stated digests are of."""
    build_locks: tuple[str, ...]
    """Locks of what builds, and is in no image."""
    locks: tuple[Lock, ...]
    flavours: tuple[Flavour, ...]
    packages: tuple[DebianPackage, ...]
    sha256: str
    """Digest of the data file itself, which names all the others."""

    def flavour(self, name: str) -> Flavour:
        """A flavour by name.

        Raises:
            ImageError: There is none.
        """
        for flavour in self.flavours:
            if flavour.name == name:
                return flavour
        known = ", ".join(flavour.name for flavour in self.flavours)
        raise ImageError(f"There is no flavour {name!r}.", f"choose one of: {known}.", EXIT_USAGE)

    def packages_of(self, chosen: str, architecture: str) -> tuple[DebianPackage, ...]:
        """Debian packages of a set on one architecture."""
        return tuple(
            package
            for package in self.packages
            if package.architecture == architecture and chosen in package.sets
        )


def read_inputs(path: Path) -> Inputs:
    """Read the data file.

    Raises:
        ImageError: It is not of the form that is expected.
    """
    content = path.read_bytes()
    try:
        return _parse(tomllib.loads(content.decode()), hashlib.sha256(content).hexdigest())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ImageError(
            f"{path.name} cannot be read: {type(error).__name__}: {error}.",
            "take the file as it is in the repository.",
            EXIT_INPUT,
        ) from error


def _parse(found: dict[str, Any], sha256: str) -> Inputs:
    return Inputs(
        suite=found["debian"]["suite"],
        roots={name: tuple(roots) for name, roots in found["debian"]["sets"].items()},
        builders=dict(found["builders"]),
        build_locks=tuple(found["build"]["locks"]),
        locks=tuple(Lock(file, digest) for file, digest in found["locks"].items()),
        flavours=tuple(
            Flavour(
                name=name,
                packages=one["packages"],
                architectures=tuple(one["architectures"]),
                environments=dict(one["environments"]),
                own={environment: tuple(folders) for environment, folders in one["own"].items()},
            )
            for name, one in found["flavours"].items()
        ),
        packages=tuple(
            DebianPackage(
                name=one["name"],
                version=one["version"],
                architecture=one["for"],
                file=one["file"],
                size=one["size"],
                sha256=one["sha256"],
                sets=tuple(one["sets"]),
            )
            for one in found["package"]
        ),
        sha256=sha256,
    )


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def check_file(path: Path, what: str, expected: str) -> None:
    """Refuse a file that is not the input that it stands for.

    Args:
        path: The file.
        what: What it is called in the sentence.
        expected: Its SHA-256.

    Raises:
        ImageError: It is missing, or its content is another.
    """
    if not path.is_file():
        raise ImageError(
            f"The input {what} is missing: there is no {path.name}.",
            "fetch the inputs again with the same command.",
            EXIT_INPUT,
        )
    found = digest_of(path)
    if found != expected:
        raise ImageError(
            f"The input {what} is not the one that is pinned: expected sha256:{expected}, found "
            f"sha256:{found}.",
            f"remove {path.name} where it came from, or pin what is there with `make image-inputs` "
            "and look at the difference.",
            EXIT_INPUT,
        )
