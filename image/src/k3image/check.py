"""`make image-check`: two builds from nothing, one digest; a smoke run inside, verified."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Final

from k3image.build import Built, Fetched, Say, build, image_name
from k3image.compare import compare_images
from k3image.engine import Store, open_store
from k3image.launch import Launch, launch
from k3image.layout import read_image
from k3image.problem import EXIT_DIFFERENT, ImageError
from k3image.source import Source
from k3image.tree import image_entries, image_tree_sha256

__all__ = ["check", "export"]

_USER: Final = 10001
# Read by the referee's own Python, from a bundle that `k3-eval verify` found sound before.
_READ_IMAGE: Final = """
import sys
from pathlib import Path
from k3bundle.archive import read_archive
from k3bundle.bundle import parse_records
records = parse_records(read_archive(Path(sys.argv[1])))
Path(sys.argv[2]).write_text(records.subject.image.model_dump_json())
"""


def check(fetched: Fetched, source: Source, folder: Path, say: Say) -> None:
    """Build twice, compare, run, verify.

    Args:
        fetched: The inputs of the cpu flavour.
        source: The commit.
        folder: Work folder; removed when all is well.
        say: Told what is done.

    Raises:
        ImageError: A step fails, or what should be equal is not.
    """
    shutil.rmtree(folder, ignore_errors=True)
    stores = [open_store(folder / f"store-{number}") for number in (1, 2)]
    try:
        built = [_build(fetched, source, store, folder, say) for store in stores]
        if built[0].digest != built[1].digest:
            raise _different(stores, fetched.flavour.name, folder)
        say(f"two builds from nothing, one digest: {built[0].digest}")
        stores[0].remove()
        layout = export(stores[1], fetched.flavour.name, folder / "layout")
        tree = image_tree_sha256(image_entries(read_image(layout)))
        say(f"sealed file tree: {tree}")
        shutil.rmtree(layout)
        _smoke(fetched, built[1], stores[1], tree=tree, say=say)
    finally:
        for store in stores:
            store.remove()
    shutil.rmtree(folder, ignore_errors=True)


def _build(fetched: Fetched, source: Source, store: Store, folder: Path, say: Say) -> Built:
    started = time.monotonic()
    # Another place, umask, time zone and language each time: none of them may be in the image.
    second = store.folder.name.endswith("2")
    before = os.umask(0o077 if second else 0o022)
    kept = {name: os.environ.get(name) for name in ("LC_ALL", "TZ")}
    os.environ |= {"LC_ALL": "C", "TZ": "UTC-13"} if second else {"LC_ALL": "C.UTF-8", "TZ": "UTC"}
    place = folder / ("another place" if second else "one").replace(" ", "-")
    try:
        built = build(fetched, source, store, place, say)
    finally:
        os.umask(before)
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        shutil.rmtree(place, ignore_errors=True)
    say(f"built {built.digest} in {time.monotonic() - started:.0f} s")
    return built


def export(store: Store, flavour: str, target: Path) -> Path:
    """Write an image of a store as an OCI layout, its layers as they are."""
    shutil.rmtree(target, ignore_errors=True)
    store.run(
        *(
            "skopeo",
            "copy",
            "--quiet",
            "--insecure-policy",
            "--dest-oci-accept-uncompressed-layers",
        ),
        *(f"containers-storage:{image_name(flavour)}", f"oci:{target}:{flavour}"),
    )
    return target


def _different(stores: list[Store], flavour: str, folder: Path) -> ImageError:
    layouts = [
        export(store, flavour, folder / f"layout-{number}") for number, store in enumerate(stores)
    ]
    _, lines = compare_images(*layouts)
    return ImageError(
        "\n  ".join(["Two builds from nothing gave two images.", *lines]),
        "find what the first differing path depends on.",
        EXIT_DIFFERENT,
    )


def _smoke(fetched: Fetched, built: Built, store: Store, *, tree: str, say: Say) -> None:
    results = store.folder.parent / "results"

    def run(*arguments: str, entrypoint: str | None = None) -> int:
        return launch(
            store,
            Launch(
                image=built.name,
                digest=built.digest,
                architecture=fetched.architecture,
                results=results,
                uid=_USER,
                gid=_USER,
                arguments=arguments,
                entrypoint=entrypoint,
            ),
        )

    started = time.monotonic()
    _must("the smoke tier", run("--tier", "smoke", "--plain"))
    took = time.monotonic() - started
    say(f"smoke tier inside, read-only, user {_USER}, no network: {took:.0f} s")
    (bundle,) = results.glob("runs/*/bundle/*.k3b")
    inside = f"/results/{bundle.relative_to(results)}"
    _must("verifying the bundle", run("verify", inside))
    python = "/opt/k3eval/referee/bin/python"
    _must("reading the bundle", run("-c", _READ_IMAGE, inside, "/results/image.json",
                                    entrypoint=python))  # fmt: skip
    named = json.loads((results / "image.json").read_text())
    expected = {"manifest_digest": built.digest, "tree_sha256": tree}
    found = {name: named.get(name) for name in expected}
    if found != expected:
        raise ImageError(
            f"The bundle names another image: expected {expected}, found {found}.",
            "compare the tree inside with the layout: image/compare names the paths.",
            EXIT_DIFFERENT,
        )
    say("its bundle is verified, and names that digest and that tree")


def _must(what: str, status: int) -> None:
    if status != 0:
        raise ImageError(
            f"In the image {what} ended with status {status}.", "see the lines above.", status
        )
