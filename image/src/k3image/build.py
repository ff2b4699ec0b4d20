"""Builds one image from one commit and the pinned inputs."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from k3image.debian import make_base
from k3image.engine import Store, find_builder
from k3image.fetched import Fetched
from k3image.layout import write_base
from k3image.materials import bill_of_materials
from k3image.room import require_room
from k3image.source import Source, export_source
from k3image.surroundings import Clock, lay_out_clock
from k3image.wheels import wheel_folder

__all__ = ["Built", "Say", "build", "image_annotations", "image_name"]

Say = Callable[[str], None]


@dataclass(frozen=True)
class Built:
    """An image in a store."""

    name: str
    digest: str
    """Digest of its manifest."""
    base_digest: str


def image_name(flavour: str) -> str:
    """Name of an image in a store."""
    return f"localhost/k3-eval:{flavour}"


def build(
    fetched: Fetched,
    source: Source,
    store: Store,
    folder: Path,
    say: Say,
    *,
    clock: Clock | None = None,
) -> Built:
    """Build from nothing but the inputs.

    Args:
        fetched: The inputs.
        source: The commit.
        store: Where the image goes.
        folder: Work folder; removed and made again.
        say: Told what is done.
        clock: A clock that is ahead, for what the build starts; None: the machine's.

    Raises:
        ImageError: A step fails, or the disk has no room.
    """
    inputs, flavour = fetched.inputs, fetched.flavour
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    require_room(folder, flavour.name)
    base = _base(fetched, source, folder, clock)
    say(
        f"base {base} of {len(inputs.packages_of(flavour.packages, fetched.architecture))} packages"
    )
    export_source(source, folder / "context")
    _lay_out_wheels(fetched, source, folder / "wheels", clock)
    local = "localhost/k3-eval-base"
    # Not the builder's own pull: it makes a name of the folder, and not every folder makes one.
    store.run(
        *("skopeo", "copy", "--quiet", "--insecure-policy", f"oci:{folder}/base:base"),
        f"containers-storage:{local}:base",
    )
    arguments = {
        "BASE": f"{local}@{base}",
        "BASE_DIGEST": base,
        "SOURCE_DATE_EPOCH": str(source.epoch),
        "CREATED": source.created,
        "FLAVOUR": flavour.name,
        "ARCHITECTURE": fetched.architecture,
        "COMMIT": source.commit,
        "INPUTS_SHA256": inputs.sha256,
    }
    builder = find_builder()
    store.run(
        *(builder, "build", "--quiet", "--no-cache", "--format", "oci", "--network", "none"),
        *(("--isolation", "oci") if builder == "buildah" else ()),
        *("--timestamp", str(source.epoch), "--build-context", f"wheels={folder}/wheels"),
        *_pairs("--build-arg", arguments),
        *_pairs("--annotation", image_annotations(flavour.name, source, base)),
        *("--file", f"{folder}/context/image/Dockerfile", "--tag", image_name(flavour.name)),
        str(folder / "context"),
        quiet=True,
    )
    digest = store.run(
        *(builder, "images", "--digests", "--format", "{{.Digest}}", image_name(flavour.name))
    )
    return Built(image_name(flavour.name), digest.splitlines()[0], base)


def _pairs(flag: str, values: dict[str, str]) -> list[str]:
    return [word for pair in values.items() for word in (flag, "=".join(pair))]


def _lay_out_wheels(fetched: Fetched, source: Source, folder: Path, clock: Clock | None) -> None:
    """What the build mounts: wheels, the bill of materials, and the clock."""
    locks = list(fetched.wheels.values())
    wheel_folder(fetched.inputs, fetched.flavour, fetched.locks, locks, folder)
    (folder / "sbom.spdx.json").write_text(bill_of_materials(fetched, source))
    if clock is not None:
        lay_out_clock(clock, folder / "clock")


def image_annotations(flavour: str, source: Source, base: str) -> dict[str, str]:
    """What a manifest says of its image, beside the labels of the Dockerfile. Pure."""
    prefix = "org.opencontainers.image."
    return {
        f"{prefix}title": f"k3-eval {flavour}",
        f"{prefix}revision": source.commit,
        f"{prefix}created": source.created,
        f"{prefix}base.digest": base,
    }


def _base(fetched: Fetched, source: Source, folder: Path, clock: Clock | None) -> str:
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
        clock=clock,
    )
    return write_base(
        layer,
        folder / "base",
        tag="base",
        architecture=fetched.architecture,
        epoch=source.epoch,
        labels={"org.opencontainers.image.title": f"k3-eval base {fetched.flavour.packages}"},
    )
