"""`make image-check`: two builds from nothing, one digest; a run inside, verified."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from k3image.apart import Apart, Asked, start_apart, store_folder, wait_for_all
from k3image.build import Built, Say, image_name
from k3image.compare import compare_images
from k3image.engine import Store, open_store
from k3image.fetched import host_architecture
from k3image.launch import Launch, container_command, launch, prepare_results
from k3image.mistakes import make_mistakes
from k3image.problem import EXIT_DIFFERENT, ImageError
from k3image.room import lay_in_memory, require_room
from k3image.source import Source
from k3image.surroundings import ORDINARY, OTHER
from k3runner.sealed_tree import read_tree, tree_sha256

__all__ = ["check", "export", "remove_stores"]

_RUNS: Final = "cpu"
"""The flavour that a machine without a GPU can run."""
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


def check(asked: Asked, source: Source, say: Say, *, beside: bool) -> None:
    """Build twice, compare, run, verify.

    Args:
        asked: What is built, and where; the work folder is removed when all is well.
        source: The commit.
        say: Told what is done.
        beside: Whether the two builds run at the same time.

    Raises:
        ImageError: A step fails, or what should be equal is not.
    """
    folder = asked.folder
    remove_stores(folder)
    shutil.rmtree(folder, ignore_errors=True)
    require_room(folder, asked.flavour, builds=2)
    try:
        places = [store_folder(folder, one.name) for one in (ORDINARY, OTHER)]
        if asked.flavour == _RUNS and lay_in_memory(places):
            say("images are laid in memory, which has room for both")
        built = _build_twice(asked, source, beside=beside)
        stores = [open_store(place) for place in places]
        if built[0].digest != built[1].digest:
            raise _different(stores, asked.flavour, folder)
        say(f"two builds from nothing, one digest: {built[0].digest}")
        with ThreadPoolExecutor(1) as aside:
            # Its files are many, and nobody needs them any more.
            aside.submit(stores[0].remove)
            _look_inside(asked.flavour, stores[1], built[1], say)
    finally:
        remove_stores(folder)


def _look_inside(flavour: str, store: Store, built: Built, say: Say) -> None:
    tree = _tree_of(store, built)
    say(f"sealed file tree: {tree}")
    if flavour != _RUNS:
        return
    say(f"{make_mistakes(store, built.name)} mistakes end in a sentence each")
    _smoke(built, store, tree=tree, say=say)
    # Kept after a failure: it says why.
    shutil.rmtree(store.folder.parent / "results")


def remove_stores(folder: Path) -> None:
    """Remove the stores of both builds, whatever is left of them."""
    for around in (ORDINARY, OTHER):
        if (place := store_folder(folder, around.name)).is_dir():
            open_store(place).remove()


def _build_twice(asked: Asked, source: Source, *, beside: bool) -> list[Built]:
    running: list[Apart] = []
    built: list[Built] = []
    try:
        for around in (ORDINARY, OTHER):
            one = replace(asked, name=around.name, days_ahead=around.days_ahead)
            running.append(start_apart(one, around, source))
            if not beside:
                built.append(running[-1].wait())
        return built if not beside else wait_for_all(running)
    finally:
        for one_running in running:
            one_running.stop()


def _tree_of(store: Store, built: Built) -> str:
    """Digest of the sealed tree, read from where the store has the image's files."""
    root = Path(store.run("podman", "image", "mount", built.name))
    try:
        return tree_sha256(read_tree(root))
    finally:
        store.run("podman", "image", "unmount", built.name)


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


def _smoke(built: Built, store: Store, *, tree: str, say: Say) -> None:
    results = store.folder.parent / "results"
    asked = Launch(
        image=built.name,
        digest=built.digest,
        architecture=host_architecture(),
        results=results,
        uid=_USER,
        gid=_USER,
        arguments=(),
    )

    def run(*arguments: str, entrypoint: str | None = None) -> int:
        return launch(store, replace(asked, arguments=arguments, entrypoint=entrypoint))

    prepare_results(asked)
    helped = store.seconds_to_words(*container_command(replace(asked, arguments=("--help",))))
    _must("`--help`", helped.status)
    say(f"`--help` answers after {helped.first:.2f} s and ends after {helped.last:.2f} s")
    smoke = container_command(replace(asked, arguments=("--tier", "smoke", "--plain")))
    ran = store.seconds_to_words(*smoke)
    _must("the smoke tier", ran.status)
    say(
        f"smoke tier inside, read-only, user {_USER}, no network: first words after "
        f"{ran.first:.1f} s, verdict after {ran.last:.0f} s"
    )
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
