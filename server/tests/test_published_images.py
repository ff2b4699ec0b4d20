"""Which image a bundle names, beside those that the operator knows."""

import json
from pathlib import Path

import pytest

from k3bundle.subject import ImageFacts
from k3server.cli import main
from k3server.errors import MachineError
from k3server.published_images import (
    IMAGE_SENTENCES,
    ImageStanding,
    image_standing,
    read_published_images,
)

DIGEST, OTHER = (f"sha256:{letter * 64}" for letter in "ab")
TREE, ELSE = "c" * 64, "d" * 64
LINE = {
    "flavour": "cpu",
    "architecture": "amd64",
    "commit": "e" * 40,
    "manifest_digest": DIGEST,
    "tree_sha256": TREE,
}


@pytest.mark.parametrize(
    ("digest", "tree", "standing"),
    [
        (None, None, "no-image"),
        (DIGEST, TREE, "published"),
        (DIGEST, ELSE, "unlike"),
        (DIGEST, None, "unlike"),
        (OTHER, TREE, "unpublished"),
        (None, TREE, "tree-only"),
        (None, ELSE, "unasserted"),
    ],
)
def test_an_image_stands_as_its_two_digests_say(
    digest: str | None, tree: str | None, standing: ImageStanding
) -> None:
    image = ImageFacts(manifest_digest=digest, tree_sha256=tree)
    assert image_standing(image, {DIGEST: TREE}) == standing
    lowers = standing not in {"no-image", "published"}
    assert IMAGE_SENTENCES[standing].startswith("Lower trust: ") == lowers


def test_the_file_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "published"
    path.write_text(f"{json.dumps(LINE)}\n\n{json.dumps(LINE | {'manifest_digest': OTHER})}\n")
    assert read_published_images(path) == {DIGEST: TREE, OTHER: TREE}


@pytest.mark.parametrize(
    "line",
    ["{", "[]", json.dumps(LINE | {"manifest_digest": "latest"}), json.dumps(LINE | {"more": 1})],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "published"
    path.write_text(f"{json.dumps(LINE)}\n{line}\n")
    with pytest.raises(MachineError, match=r"Line 2 of .* is no published image"):
        read_published_images(path)


def test_a_registry_does_not_start_without_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["serve", "--data", str(tmp_path / "data"), "--port", "0"]
    assert main([*words, "--published-images", str(tmp_path / "nothing")]) == 5
    assert "cannot be read" in capsys.readouterr().err
