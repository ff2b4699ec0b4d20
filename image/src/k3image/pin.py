"""`make image-inputs`: writes what is pinned into `inputs.toml` again.

What people write stands above one line of the file, what is written here below it.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from k3image.apt import Apt, Offered
from k3image.inputs import ARCHITECTURES, Inputs, digest_of, read_inputs

__all__ = ["MARK", "pin_inputs", "tail"]

MARK = "# Written by `make image-inputs`; not edited by hand."


def pin_inputs(path: Path, root: Path, folder: Path, *, debian: bool) -> None:
    """Pin the locks as they are, and the Debian packages as the mirrors offer them now.

    Args:
        path: The data file.
        root: The repository.
        folder: Where apt may work.
        debian: Also the Debian packages; without, only the digests of the locks.
    """
    inputs = read_inputs(path)
    text = path.read_text()
    head = text[: text.index(MARK)]
    locks = {lock.file: digest_of(root / lock.file) for lock in inputs.locks}
    rows = _resolved(inputs, folder) if debian else _as_they_are(inputs)
    path.write_text(head + tail(locks, rows))


def tail(locks: dict[str, str], rows: Iterable[str]) -> str:
    """The part of the data file that is written, from its first line on."""
    lines = [MARK, "[locks]", *(f'"{file}" = "{digest}"' for file, digest in locks.items()), ""]
    return "\n".join([*lines, *rows]) + "\n"


def _row(one: Offered, architecture: str, sets: list[str]) -> str:
    words = ", ".join(f'"{name}"' for name in sets)
    return (
        f"[[package]]\nname = {json.dumps(one.name)}\nversion = {json.dumps(one.version)}\n"
        f'for = "{architecture}"\nfile = {json.dumps(one.file)}\nsize = {one.size}\n'
        f'sha256 = "{one.sha256}"\nsets = [{words}]\n'
    )


def _as_they_are(inputs: Inputs) -> list[str]:
    return [
        _row(
            Offered(one.name, one.version, one.file, one.size, one.sha256),
            one.architecture,
            list(one.sets),
        )
        for one in inputs.packages
    ]


def _resolved(inputs: Inputs, folder: Path) -> list[str]:
    rows = []
    for architecture in ARCHITECTURES:
        apt = Apt(folder / architecture, architecture)
        sets: dict[Offered, list[str]] = {}
        for name, roots in inputs.roots.items():
            for package in apt.resolve(roots):
                sets.setdefault(package, []).append(name)
        rows += [
            _row(package, architecture, sets[package])
            for package in sorted(sets, key=lambda one: (one.name, one.version))
        ]
    return rows
