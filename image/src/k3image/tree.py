"""The file tree of an image, from its layers: what a container would see before it starts."""

import gzip
import hashlib
import posixpath
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Final, cast

from k3image.layout import Image, Layer
from k3runner.sealed_tree import Entry, tree_sha256

__all__ = ["Found", "image_entries", "image_tree_sha256", "layer_tar", "read_layer_tree"]

_CHUNK_BYTES: Final = 1 << 20
_GONE: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"


@dataclass(frozen=True)
class Found:
    """One path of an image, with what the sealed tree leaves out."""

    entry: Entry
    mtime_s: int
    layer: int
    """Number of the layer that it comes from, from 0."""
    member: str
    """Name in that layer's tar that has the content."""


def image_tree_sha256(found: dict[str, Found]) -> str:
    """Digest of the sealed tree, as the runner computes it inside."""
    return tree_sha256(one.entry for one in found.values())


def image_entries(image: Image) -> dict[str, Found]:
    """Every path of an image, the layers laid over each other. Devices are left out."""
    tree: dict[str, Found] = {}
    for number, layer in enumerate(image.layers):
        read_layer_tree(layer, number, tree)
    return tree


@contextmanager
def layer_tar(layer: Layer) -> Iterator[IO[bytes]]:
    """The layer as an uncompressed tar stream."""
    with layer.path.open("rb") as file:
        if layer.media_type.endswith("gzip"):
            with gzip.open(file) as plain:
                yield cast(IO[bytes], plain)
        else:
            yield file


def read_layer_tree(layer: Layer, number: int, tree: dict[str, Found]) -> None:
    """Lay one layer over a tree."""
    with layer_tar(layer) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            path = posixpath.normpath(member.name).lstrip("/")
            folder, name = posixpath.split(path)
            if name == _OPAQUE:
                _remove(tree, folder, itself=False)
            elif name.startswith(_GONE):
                _remove(tree, posixpath.join(folder, name[len(_GONE) :]), itself=True)
            elif path != ".":
                _put(tree, tar, member, path, number)


def _put(
    tree: dict[str, Found], tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, number: int
) -> None:
    mode = member.mode & 0o7777
    owner = (member.uid, member.gid)
    if member.islnk():
        source = tree[posixpath.normpath(member.linkname).lstrip("/")]
        tree[path] = replace(source, entry=replace(source.entry, path=path))
        return
    if member.isreg():
        entry = Entry(path, "file", mode, *owner, _digest(tar, member))
    elif member.issym():
        entry = Entry(path, "link", 0o777, *owner, member.linkname)
    elif member.isdir():
        entry = Entry(path, "folder", mode, *owner, "")
    else:
        return
    before = tree.get(path)
    if before is not None and before.entry.kind == "folder" != entry.kind:
        # Looked for only then: a tree has tens of thousands of paths.
        _remove(tree, path, itself=True)
    tree[path] = Found(entry, int(member.mtime), number, member.name)


def _remove(tree: dict[str, Found], path: str, *, itself: bool) -> None:
    if itself and path in tree and tree[path].entry.kind != "folder":
        del tree[path]
        return
    inside = f"{path}/"
    for known in [one for one in tree if one.startswith(inside) or (itself and one == path)]:
        del tree[known]


def _digest(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    # What is left out is hashed as well: a comparison explains all of an image.
    digest = hashlib.sha256()
    content = tar.extractfile(member)
    while content is not None and (chunk := content.read(_CHUNK_BYTES)):
        digest.update(chunk)
    return digest.hexdigest()
