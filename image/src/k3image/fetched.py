"""All inputs of a build, on this machine and checked."""

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3image.debian import fetch_packages
from k3image.inputs import ARCHITECTURES, Flavour, Inputs
from k3image.problem import ImageError
from k3image.wheels import FetchedLock, fetch_lock

__all__ = ["Fetched", "fetch", "host_architecture"]

_OTHERWISE: Final = {"requirements/engine.txt": "requirements/engine-pypi.txt"}
"""Lock -> the one that is taken where no source offers the CPU build of torch."""


@dataclass(frozen=True)
class Fetched:
    """All inputs of a build, on this machine and checked."""

    inputs: Inputs
    flavour: Flavour
    architecture: str
    """The image format's name of it."""
    debs: Path
    wheels: dict[str, FetchedLock]
    """Lock -> its wheels; with the locks of what builds."""
    locks: dict[str, str]
    """Environment -> lock, as chosen."""


def host_architecture() -> str:
    """The image format's name of this machine's architecture.

    Raises:
        ImageError: No image is made for it.
    """
    machine = platform.machine()
    for name, kernel in ARCHITECTURES.items():
        if kernel == machine:
            return name
    raise ImageError(
        f"This machine is {machine}, and images are made for {', '.join(ARCHITECTURES.values())}.",
        "use a machine of one of these.",
    )


def fetch(inputs: Inputs, name: str, root: Path, python: Path, cache: Path) -> Fetched:
    """Have every input of a flavour on this machine.

    Raises:
        ImageError: The flavour is not made for this machine, or an input is not the pinned one.
    """
    flavour, architecture = inputs.flavour(name), host_architecture()
    if architecture not in flavour.architectures:
        raise ImageError(
            f"The flavour {name} is made for {', '.join(flavour.architectures)}, and this machine "
            f"is {architecture}.",
            "build it on such a machine.",
        )
    packages = inputs.packages_of(flavour.packages, architecture)
    fetch_packages(packages, cache / "debian")
    pinned = {lock.file: lock.sha256 for lock in inputs.locks}
    machine = ARCHITECTURES[architecture]
    chosen: dict[str, str] = {}
    wheels: dict[str, FetchedLock] = {}

    def take(file: str) -> None:
        wheels[file] = fetch_lock(root / file, pinned[file], python, cache / "wheels")

    for environment, template in flavour.environments.items():
        file = template.format(machine=machine)
        try:
            take(file)
        except ImageError as problem:
            if file not in _OTHERWISE or "No matching distribution" not in str(problem):
                raise
            file = _OTHERWISE[file]
            take(file)
        chosen[environment] = file
    for file in inputs.build_locks:
        take(file)
    return Fetched(inputs, flavour, architecture, cache / "debian", wheels, chosen)
