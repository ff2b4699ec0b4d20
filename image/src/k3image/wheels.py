"""The wheels that locks name: fetched with pip, and checked against the locks once more."""

import json
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3image.inputs import Flavour, Inputs, check_file, digest_of
from k3image.problem import EXIT_INPUT, ImageError

__all__ = [
    "FetchedLock",
    "InputWheel",
    "Pin",
    "check_wheels",
    "fetch_lock",
    "read_pins",
    "wheel_folder",
]

_PIN: Final = re.compile(
    r"(?m)^([A-Za-z0-9._-]+)==([^ ;\\]+) ?(;?)[^\n]*((?:\n    --hash=[^\n]*)+)"
)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One package of a lock."""

    name: str
    """In the normal form: lower case, one hyphen between words."""
    version: str
    digests: frozenset[str]
    """SHA-256 of each file that may be installed."""
    is_conditional: bool
    """Whether it is for some machines or Pythons only."""


@dataclass(frozen=True)
class InputWheel:
    """A wheel that is one that its lock names."""

    name: str
    version: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class FetchedLock:
    """The wheels of a lock, on this machine and checked."""

    folder: Path
    wheels: tuple[InputWheel, ...]


def read_pins(text: str) -> tuple[Pin, ...]:
    """The packages of a lock."""
    return tuple(
        Pin(normal(name), version, frozenset(_HASH.findall(hashes)), bool(condition))
        for name, version, condition, hashes in _PIN.findall(text)
    )


def normal(name: str) -> str:
    """A package's name in the normal form."""
    return re.sub(r"[-_.]+", "-", name).lower()


def check_wheels(pins: Iterable[Pin], folder: Path) -> tuple[InputWheel, ...]:
    """The wheel of every package, each checked.

    Args:
        pins: Packages of a lock.
        folder: Folder of wheels.

    Raises:
        ImageError: A wheel is missing, or is not one that the lock names.
    """
    there: dict[tuple[str, str], Path] = {}
    for path in sorted(folder.glob("*.whl")):
        name, version, *_ = path.name.split("-")
        there[normal(name), version] = path
    found = []
    for pin in pins:
        wheel = there.get((pin.name, pin.version.replace("-", "_")))
        if wheel is None and pin.is_conditional:
            continue
        if wheel is None:
            raise ImageError(
                f"The input wheel {pin.name} {pin.version} is missing in {folder}.",
                "fetch the inputs again with the same command.",
                EXIT_INPUT,
            )
        digest = digest_of(wheel)
        if digest not in pin.digests:
            raise ImageError(
                f"The input wheel {pin.name} {pin.version} is not one that its lock names: found "
                f"sha256:{digest} in {wheel.name}.",
                f"remove {wheel} and run the same command again.",
                EXIT_INPUT,
            )
        found.append(InputWheel(pin.name, pin.version, wheel, digest))
    return tuple(found)


def fetch_lock(lock: Path, sha256: str, python: Path, cache: Path) -> FetchedLock:
    """A folder with all wheels of a lock for this machine, filled where it is not.

    Args:
        lock: The lock.
        sha256: Digest that `inputs.toml` pins it with.
        python: A Python with pip, of the version and machine that the wheels are for.
        cache: Folder of such folders.

    Raises:
        ImageError: The lock is not the pinned one, or a wheel cannot be had.
    """
    check_file(lock, f"lock {lock.name}", sha256)
    folder = cache / f"{lock.stem}-{sha256[:12]}"
    pins = read_pins(lock.read_text())
    if not (folder / ".whole").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _download(lock, folder, python)
        (folder / ".whole").touch()
    return FetchedLock(folder, check_wheels(pins, folder))


def _download(lock: Path, folder: Path, python: Path) -> None:
    command = [
        *(str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"),
        *("--only-binary", ":all:", "--require-hashes", "-r", str(lock), "-d", str(folder)),
    ]
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise ImageError(
            f"{python} does not run, and wheels are fetched with its pip.", "run `make image`."
        ) from error
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise ImageError(
            f"The wheels of {lock.name} cannot be had: {' '.join(said)[:400] or 'no word'}",
            "check that the package index can be reached.",
        )


def wheel_folder(
    inputs: Inputs,
    flavour: Flavour,
    locks: dict[str, str],
    sources: list[FetchedLock],
    target: Path,
) -> None:
    """Lay out what the build mounts: every wheel once, and what to make of them.

    Args:
        inputs: The data file.
        flavour: What is built.
        locks: Environment -> lock, as chosen.
        sources: Their wheels, and those of what builds.
        target: Folder that does not exist yet.
    """
    (target / "files").mkdir(parents=True)
    for source in sources:
        for wheel in source.wheels:
            place = target / "files" / wheel.path.name
            if not place.exists():
                os.link(wheel.path, place)
    told = {
        "name": flavour.name,
        "build_locks": inputs.build_locks,
        "environments": locks,
        "own": flavour.own,
    }
    (target / "flavour.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
