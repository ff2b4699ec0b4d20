"""The digest of the file tree that a run happens in, computed inside the container.

The digest of the manifest is what a launcher says; this one the runner reads for itself. Outside
of an image of this repository there is none.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3runner.sealed_tree import UnreadableTreeError, mount_points, read_tree, tree_sha256

__all__ = ["IMAGE_MARK", "ImageTree", "is_in_image", "read_image_tree"]

IMAGE_MARK: Final = Path("opt/k3eval/image.json")
"""Where an image of this repository describes itself, below its root."""
_MOUNTS: Final = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class ImageTree:
    """What can be said about the file tree."""

    sha256: str | None
    """Digest of the sealed tree; None outside of an image, or where it cannot be read."""
    remarks: tuple[str, ...]
    """What a reader should know, in sentences."""


def is_in_image(root: Path = Path("/")) -> bool:
    """Whether this is a container of an image of this repository."""
    return (root / IMAGE_MARK).is_file()


def read_image_tree(
    asserted_digest: str | None, *, root: Path = Path("/"), mounts: Path = _MOUNTS
) -> ImageTree:
    """Reads every file of the image.

    Args:
        asserted_digest: Manifest digest as the launcher says it; None: it says none.
        root: Root of the file tree.
        mounts: What is mounted, as the kernel lists it.
    """
    if not is_in_image(root):
        return ImageTree(None, ())
    remarks = []
    if asserted_digest is None:
        remarks.append(
            "Image digest not asserted: whoever started the image did not say which one it is, so "
            "the digest of its file tree alone tells what ran."
        )
    try:
        mounted = mount_points(mounts.read_text("utf-8", "surrogateescape"))
        return ImageTree(tree_sha256(read_tree(root, mounted)), tuple(remarks))
    except (OSError, UnreadableTreeError) as error:
        remarks.append(f"The file tree of the image has no digest: {error}.")
        return ImageTree(None, tuple(remarks))
