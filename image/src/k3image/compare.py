"""Explains how two images differ, down to the first byte that does."""

import tarfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from k3image.layout import Image, Layer, read_image
from k3image.tree import Found, image_entries, image_tree_sha256, layer_tar

__all__ = ["compare_images", "explain"]

_SHOWN: Final = 40
_AROUND: Final = 8
_CHUNK_BYTES: Final = 1 << 20


def compare_images(one: Path, other: Path) -> tuple[bool, list[str]]:
    """Compare two OCI layouts.

    Returns:
        Whether their manifests are the same, and the sentences that say what differs and what does
        not: manifest, configuration, layers, then path by path.
    """
    left, right = read_image(one), read_image(other)
    if left.digest == right.digest:
        return True, [f"Same manifest: {left.digest}."]
    lines = [f"Manifests differ: {left.digest} and {right.digest}."]
    lines += _values("configuration", left.config, right.config)
    lines += _layers(left, right)
    trees = image_entries(left), image_entries(right)
    digests = [image_tree_sha256(tree) for tree in trees]
    if digests[0] == digests[1]:
        lines.append(f"Same sealed file tree: {digests[0]}.")
    else:
        lines.append(f"Sealed file trees differ: {digests[0]} and {digests[1]}.")
    lines += explain(left, right, *trees)
    return False, lines


def explain(left: Image, right: Image, one: dict[str, Found], other: dict[str, Found]) -> list[str]:
    """A sentence for each path that differs, the first of them; then how many more there are."""
    differing = [path for path in sorted(one.keys() | other.keys()) if not _same(one, other, path)]
    lines = [line for path in differing[:_SHOWN] for line in _path(left, right, one, other, path)]
    if len(differing) > _SHOWN:
        lines.append(f"{len(differing) - _SHOWN} more paths differ.")
    if not differing:
        lines.append("No path differs: the layers hold the same in another order or packing.")
    return lines


def _same(one: dict[str, Found], other: dict[str, Found], path: str) -> bool:
    left, right = one.get(path), other.get(path)
    return (
        left is not None
        and right is not None
        and (left.entry, left.mtime_s) == (right.entry, right.mtime_s)
    )


def _path(
    left: Image, right: Image, one: dict[str, Found], other: dict[str, Found], path: str
) -> Iterator[str]:
    a, b = one.get(path), other.get(path)
    if a is None or b is None:
        yield f"/{path}: only in the {'second' if a is None else 'first'}."
        return
    for field in fields(a.entry):
        before, after = getattr(a.entry, field.name), getattr(b.entry, field.name)
        if before == after:
            continue
        if field.name == "mode":
            yield f"/{path}: mode {before:04o} and {after:04o}."
        elif field.name == "content" and a.entry.kind == b.entry.kind == "file":
            yield f"/{path}: {_first_byte(_content(left, a), _content(right, b))}"
        else:
            yield f"/{path}: {field.name} {before} and {after}."
    if a.mtime_s != b.mtime_s:
        yield f"/{path}: mtime {a.mtime_s} and {b.mtime_s}."


def _first_byte(one: bytes, other: bytes) -> str:
    pairs = enumerate(zip(one, other, strict=False))
    shorter = min(len(one), len(other))
    at = next((number for number, (a, b) in pairs if a != b), shorter)
    if at == shorter:
        return f"{len(one)} and {len(other)} bytes, equal up to the end of the shorter."
    around = slice(max(0, at - _AROUND), at + _AROUND)
    return f"first differing byte at offset {at}: {one[around]!r} and {other[around]!r}."


def _content(image: Image, found: Found) -> bytes:
    with (
        layer_tar(image.layers[found.layer]) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        for member in tar:
            if member.name == found.member:
                file = tar.extractfile(member)
                return file.read() if file is not None else b""
    return b""


def _layers(left: Image, right: Image) -> Iterator[str]:
    if len(left.layers) != len(right.layers):
        yield f"{len(left.layers)} and {len(right.layers)} layers."
    pairs = zip(left.layers, right.layers, strict=False)
    for number, (a, b) in enumerate(pairs):
        if a.digest != b.digest:
            yield f"Layer {number} differs: {_stream_difference(a, b)}"


def _stream_difference(one: Layer, other: Layer) -> str:
    offset = 0
    with layer_tar(one) as left, layer_tar(other) as right:
        while True:
            a, b = left.read(_CHUNK_BYTES), right.read(_CHUNK_BYTES)
            if a != b:
                at = next(
                    (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
                    min(len(a), len(b)),
                )
                return f"the first differing byte of its tar is at offset {offset + at}."
            if not a:
                return "only its compression differs."
            offset += len(a)


def _values(where: str, one: Any, other: Any) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _values(f"{where}.{key}", one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            yield from _values(f"{where}[{number}]", a, b)
    elif one != other:
        yield f"{where}: {one!r} and {other!r}."
