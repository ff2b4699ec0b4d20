"""Builds one image from one commit and the pinned inputs."""

import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3image.debian import fetch_packages, make_base
from k3image.engine import Store, find_builder
from k3image.inputs import ARCHITECTURES, Flavour, Inputs
from k3image.layout import write_base
from k3image.problem import ImageError
from k3image.source import Source, export_source
from k3image.wheels import fetch_lock, wheel_folder

__all__ = ["Built", "Fetched", "build", "fetch", "host_architecture", "image_name"]

Say = Callable[[str], None]
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
    wheels: tuple[Path, ...]
    locks: dict[str, str]
    """Environment -> lock, as chosen."""


@dataclass(frozen=True)
class Built:
    """An image in a store."""

    name: str
    digest: str
    """Digest of its manifest."""
    base_digest: str


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


def image_name(flavour: str) -> str:
    """Name of an image in a store."""
    return f"localhost/k3-eval:{flavour}"


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
    chosen, folders = {}, []

    def take(file: str) -> None:
        folders.append(fetch_lock(root / file, pinned[file], python, cache / "wheels"))

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
    return Fetched(inputs, flavour, architecture, cache / "debian", tuple(folders), chosen)


def build(fetched: Fetched, source: Source, store: Store, folder: Path, say: Say) -> Built:
    """Build from nothing but the inputs.

    Args:
        fetched: The inputs.
        source: The commit.
        store: Where the image goes.
        folder: Work folder; removed and made again.
        say: Told what is done.

    Raises:
        ImageError: A step fails.
    """
    inputs, flavour = fetched.inputs, fetched.flavour
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    base = _base(fetched, source, folder)
    say(
        f"base {base} of {len(inputs.packages_of(flavour.packages, fetched.architecture))} packages"
    )
    export_source(source, folder / "context")
    wheel_folder(inputs, flavour, fetched.locks, list(fetched.wheels), folder / "wheels")
    builder = find_builder()
    local = "localhost/k3-eval-base"
    # Not the builder's own pull: it makes a name of the folder, and not every folder makes one.
    store.run(
        *("skopeo", "copy", "--quiet", "--insecure-policy", f"oci:{folder}/base:base"),
        f"containers-storage:{local}:base",
    )
    arguments = {
        "BASE": f"{local}@{base}",
        "SOURCE_DATE_EPOCH": str(source.epoch),
        "FLAVOUR": flavour.name,
        "ARCHITECTURE": fetched.architecture,
        "COMMIT": source.commit,
        "INPUTS_SHA256": inputs.sha256,
    }
    store.run(
        *(builder, "build", "--quiet", "--no-cache", "--format", "oci", "--network", "none"),
        *(("--isolation", "oci") if builder == "buildah" else ()),
        *("--timestamp", str(source.epoch), "--build-context", f"wheels={folder}/wheels"),
        *(word for one in arguments.items() for word in ("--build-arg", "=".join(one))),
        *("--file", f"{folder}/context/image/Dockerfile", "--tag", image_name(flavour.name)),
        str(folder / "context"),
        quiet=True,
    )
    digest = store.run(
        *(builder, "images", "--digests", "--format", "{{.Digest}}", image_name(flavour.name))
    )
    return Built(image_name(flavour.name), digest.splitlines()[0], base)


def _base(fetched: Fetched, source: Source, folder: Path) -> str:
    inputs = fetched.inputs
    packages = inputs.packages_of(fetched.flavour.packages, fetched.architecture)
    layer = folder / "base.tar"
    make_base(
        packages,
        fetched.debs,
        layer,
        suite=inputs.suite,
        architecture=fetched.architecture,
        epoch=source.epoch,
    )
    return write_base(
        layer,
        folder / "base",
        tag="base",
        architecture=fetched.architecture,
        epoch=source.epoch,
        labels={"org.opencontainers.image.title": f"k3-eval base {fetched.flavour.packages}"},
    )
