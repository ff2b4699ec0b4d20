"""Images that the operator knows: digest of the manifest -> digest of the file tree that it has.

A launcher says the one, a run reads the other. Where both are of one published image, what ran can
be made again by anybody; where not, the page says how far that carries.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import ValidationError

from k3bundle.record import Record, Sha256
from k3bundle.subject import ImageDigest, ImageFacts
from k3server.errors import MachineError

__all__ = ["IMAGE_SENTENCES", "ImageStanding", "image_standing", "read_published_images"]

ImageStanding = Literal["no-image", "published", "unlike", "unpublished", "tree-only", "unasserted"]
"""How an image of a bundle stands to the published ones."""

IMAGE_SENTENCES: Final[Mapping[ImageStanding, str]] = {
    "no-image": "Not run in an image of k3-eval: what was installed is known by its packages only.",
    "published": "The asserted digest is of a published image, and the file tree that the run read "
    "is that image's.",
    "unlike": "Lower trust: the asserted digest is of a published image, and the file tree that "
    "the run read is another one.",
    "unpublished": "Lower trust: the asserted digest is of no image that is published here.",
    "tree-only": "Lower trust: digest not asserted. The file tree that the run read is that of a "
    "published image.",
    "unasserted": "Lower trust: digest not asserted, and the file tree is of no image that is "
    "published here.",
}
"""What each standing means, in a sentence for a person."""


class _Published(Record):
    """One line of the file."""

    flavour: str
    """Name of the image's flavour."""
    architecture: str
    """What it is made for, as the image format spells it."""
    commit: str
    """Commit that it is made from."""
    manifest_digest: ImageDigest
    """Digest of its manifest."""
    tree_sha256: Sha256
    """Digest of its sealed file tree."""


def image_standing(image: ImageFacts, published: Mapping[str, str]) -> ImageStanding:
    """How the image of a bundle stands to the published ones. Pure.

    Args:
        image: The image, as the bundle names it.
        published: Manifest digest -> digest of the file tree.
    """
    if image.manifest_digest is None and image.tree_sha256 is None:
        return "no-image"
    if image.manifest_digest is None:
        return "tree-only" if image.tree_sha256 in published.values() else "unasserted"
    tree = published.get(image.manifest_digest)
    if tree is None:
        return "unpublished"
    return "published" if tree == image.tree_sha256 else "unlike"


def read_published_images(path: Path) -> dict[str, str]:
    """Read the file: one JSON object a line, as `make image` writes them.

    Raises:
        MachineError: It cannot be read, or a line is none.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(
            f"The file of published images, {path}, cannot be read: {error}.",
            "Correct --published-images.",
        ) from error
    found = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            one = _Published.model_validate_json(line)
        except ValidationError as error:
            raise MachineError(
                f"Line {number} of {path} is no published image.",
                "Take the line that `make image` leaves beside the image.",
            ) from error
        found[one.manifest_digest] = one.tree_sha256
    return found
