"""The commands behind `make image`, `make image-check`, `make image-run` and `image/compare`."""

import argparse
import os
import platform
import signal
import sys
import time
from pathlib import Path
from typing import Final

from k3image.apart import Asked, build_apart
from k3image.build import Built, Say, build, image_name
from k3image.check import check, export
from k3image.compare import compare_images
from k3image.compose import check_compose
from k3image.engine import Store, builder_versions, open_store
from k3image.fetched import Fetched, fetch, host_architecture
from k3image.gpu_lock import pin_gpu
from k3image.inputs import ARCHITECTURES, Inputs, read_inputs
from k3image.launch import Launch, launch
from k3image.layout import read_image
from k3image.materials import bill_of_materials, published_line, statement_of_origin
from k3image.needed import require_machine
from k3image.pin import pin_inputs
from k3image.problem import EXIT_DIFFERENT, EXIT_ENVIRONMENT, EXIT_USAGE, ImageError
from k3image.source import Source, find_source
from k3image.surroundings import OTHER, find_clock
from k3image.tree import image_entries, image_tree_sha256

__all__ = ["compare_main", "main"]

_ROOT: Final = Path(__file__).resolve().parents[3]
_HOUSE: Final = _ROOT / ".k3eval" / "image"
FOLDER_OF_CONTAINERS: Final = "containers"
"""Images and containers; each flavour's layout lies beside it under the flavour's name."""
_INPUTS: Final = _ROOT / "image" / "inputs.toml"
_PYTHON: Final = (3, 11)


def main(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    # Asked to end it ends what it started, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(_parser().parse_args(arguments))
    except ImageError as problem:
        sys.stderr.write(f"k3-eval image: {problem}\n")
        return problem.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("k3-eval image: stopped.\n")
        return 130


def compare_main(arguments: list[str]) -> int:
    """`image/compare`: 0 when two layouts are the same image, 1 with what differs."""
    if not 1 <= len(arguments) <= 2 or arguments[0] in {"-h", "--help"}:  # noqa: PLR2004
        sys.stderr.write("usage: image/compare LAYOUT [OTHER]\n")
        return EXIT_USAGE
    try:
        if len(arguments) == 1:
            sys.stdout.write(
                image_tree_sha256(image_entries(read_image(Path(arguments[0])))) + "\n"
            )
            return 0
        same, lines = compare_images(*map(Path, arguments))
    except ImageError as problem:
        sys.stderr.write(f"image/compare: {problem}\n")
        return problem.exit_code
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if same else EXIT_DIFFERENT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="k3image", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in (
        ("build", "build one flavour"),
        ("check", "build one flavour twice, compare, run the smoke tier inside, verify"),
        ("build-apart", "one build of `check`, in a process of its own"),
    ):
        one = commands.add_parser(name, help=words)
        one.add_argument("--commit", default="HEAD")
        one.add_argument("--python", type=Path, required=True, help="Python with pip, for wheels")
        one.add_argument("--flavour", default="cpu")
        if name == "check":
            one.add_argument("--one-by-one", action="store_true", help="one build after the other")
        if name == "build-apart":
            one.add_argument("--cache", type=Path, required=True)
            one.add_argument("--folder", type=Path, required=True)
            one.add_argument("--name", required=True)
            one.add_argument("--days-ahead", type=int, required=True)
    composed = commands.add_parser("compose", help="bring compose.yaml up and test it")
    composed.add_argument("--python", type=Path, required=True, help="Python for tests")
    run = commands.add_parser("run", help="run an image that was built")
    run.add_argument("--flavour", default="cpu")
    run.add_argument("--results", type=Path, default=_ROOT / "results")
    run.add_argument("--model", type=Path)
    run.add_argument("arguments", nargs="*", help="arguments for k3-eval, after --")
    pin = commands.add_parser("pin", help="write what is pinned into inputs.toml again")
    pin.add_argument("--locks-only", action="store_true")
    pin.add_argument("--uv", type=Path, required=True, help="the installer, which resolves")
    return parser


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command == "pin":
        if not chosen.locks_only:
            for machine in ARCHITECTURES.values():
                sys.stderr.write(pin_gpu(_ROOT / "image" / "locks", chosen.uv, machine) + "\n")
        pin_inputs(_INPUTS, _ROOT, _HOUSE / "apt", debian=not chosen.locks_only)
        return 0
    if chosen.command == "run":
        return _launch(chosen)
    say = _sayer()
    if chosen.command == "compose":
        check_compose(_store(), _HOUSE, _ROOT, chosen.python.absolute(), say)
        return 0
    inputs = read_inputs(_INPUTS)
    source = _prepare(inputs, chosen, say)
    if chosen.command == "check":
        require_machine(_HOUSE)
        find_clock(OTHER.days_ahead)
    if chosen.command == "build-apart":
        words = (chosen.cache, chosen.folder, chosen.name, chosen.days_ahead)
        build_apart(Asked(chosen.flavour, chosen.python, *words), source, say)
        return 0
    fetched = fetch(inputs, chosen.flavour, _ROOT, chosen.python, _HOUSE / "cache")
    say(f"every input of {chosen.flavour} is here and is the pinned one")
    if chosen.command == "check":
        asked = Asked(
            chosen.flavour, chosen.python.absolute(), _HOUSE / "cache", _HOUSE / "check", "", 0
        )
        check(asked, source, say, beside=not chosen.one_by_one)
        return 0
    store = _store()
    built = build(fetched, source, store, _HOUSE / "work", say)
    layout = export(store, chosen.flavour, _HOUSE / chosen.flavour)
    tree = image_tree_sha256(image_entries(read_image(layout)))
    for name, text in _documents(fetched, source, built, tree).items():
        (_HOUSE / f"{chosen.flavour}.{name}.json").write_text(text)
    sys.stdout.write(f"{built.digest} {layout}\n")
    return 0


def _sayer() -> Say:
    started = time.monotonic()

    def say(sentence: str) -> None:
        sys.stderr.write(f"{time.monotonic() - started:6.0f} s  {sentence}\n")
        sys.stderr.flush()

    return say


def _documents(fetched: Fetched, source: Source, built: Built, tree: str) -> dict[str, str]:
    versions = builder_versions(tuple(fetched.inputs.builders))
    return {
        "published": published_line(fetched, source, built.digest, tree),
        "spdx": bill_of_materials(fetched, source),
        "provenance": statement_of_origin(fetched, source, built.digest, versions),
    }


def _prepare(inputs: Inputs, chosen: argparse.Namespace, say: Say) -> Source:
    if sys.version_info[:2] != _PYTHON:
        raise ImageError(
            f"Images are built with Python 3.11, and this is {platform.python_version()}.",
            "name one: make image PYTHON=/usr/bin/python3.11",
        )
    if os.geteuid() != 0:
        raise ImageError(
            "The base is unpacked as root, and this is another user.",
            "run the same command as root, or in a container or virtual machine of your own.",
        )
    source = find_source(_ROOT, chosen.commit)
    if chosen.command == "build-apart":
        return source
    if source.is_dirty:
        say(f"this checkout has changes that are not in commit {source.commit[:12]}: left out")
    for name, version in builder_versions(tuple(inputs.builders)).items():
        if version != inputs.builders[name]:
            say(
                f"{name} here is {version}; stated digests are of {inputs.builders[name]}, and "
                "another version may give another digest of the same file tree"
            )
    return source


def _store() -> Store:
    return open_store(_HOUSE / FOLDER_OF_CONTAINERS)


def _launch(chosen: argparse.Namespace) -> int:
    layout = _HOUSE / chosen.flavour
    if not layout.is_dir():
        raise ImageError(
            f"The flavour {chosen.flavour} is not built here.",
            f"make image FLAVOUR={chosen.flavour}",
            EXIT_ENVIRONMENT,
        )
    image = read_image(layout)
    return launch(
        _store(),
        Launch(
            image=image_name(chosen.flavour),
            digest=image.digest,
            architecture=str(image.config.get("architecture", host_architecture())),
            results=chosen.results.absolute(),
            uid=os.getuid() or 10001,
            gid=os.getgid() or 10001,
            arguments=tuple(chosen.arguments),
            model=None if chosen.model is None else chosen.model.absolute(),
            gpus=chosen.flavour == "gpu",
        ),
    )
