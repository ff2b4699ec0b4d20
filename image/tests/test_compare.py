"""A difference between two images is explained down to the first differing byte."""

import gzip
import json
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from k3image import tree as tree_module
from k3image.cli import compare_main
from k3image.compare import compare_images
from k3image.inputs import digest_of
from k3image.layout import Layer, read_image
from k3image.problem import ImageError
from k3image.tree import Found, image_entries, image_tree_sha256, read_layer_tree
from k3runner.sealed_tree import read_tree, tree_sha256

Make = Callable[..., Path]
FILES = {"opt/": b"", "opt/a": b"some content", "opt/link": b"-> a", "etc/hosts": b"x"}


def test_the_same_files_make_the_same_image(make_layout: Make) -> None:
    one, other = make_layout("one", FILES), make_layout("other", FILES)
    same, lines = compare_images(one, other)
    assert same
    assert lines == [f"Same manifest: {read_image(one).digest}."]


def test_the_first_differing_byte_is_named(make_layout: Make) -> None:
    one = make_layout("one", FILES)
    other = make_layout("other", {**FILES, "opt/a": b"some tontent"})
    same, lines = compare_images(one, other)
    assert not same
    assert "/opt/a: first differing byte at offset 5: b'some content' and b'some tontent'." in lines
    assert any(
        line.startswith("Layer 0 differs: the first differing byte of its") for line in lines
    )
    assert any(line.startswith("Sealed file trees differ: ") for line in lines)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"opt/a": b"some content and more"}, "/opt/a: 12 and 21 bytes, equal up to the end"),
        ({"opt/b": b""}, "/opt/b: only in the second."),
        ({"opt/link": b"-> b"}, "/opt/link: content a and b."),
        ({"opt/a": b"-> link"}, "/opt/a: kind file and link."),
    ],
)
def test_each_kind_of_difference_is_a_sentence(
    make_layout: Make, change: dict[str, bytes], sentence: str
) -> None:
    one, other = make_layout("one", FILES), make_layout("other", {**FILES, **change})
    _, lines = compare_images(one, other)
    assert any(line.startswith(sentence) for line in lines), lines


def test_modes_and_times_are_told_apart(make_layout: Make) -> None:
    one = make_layout("one", {"opt/a": b"x"})
    modes = compare_images(one, make_layout("modes", {"opt/a": b"x"}, mode=0o600))[1]
    times = compare_images(one, make_layout("times", {"opt/a": b"x"}, mtime=2))[1]
    assert "/opt/a: mode 0644 and 0600." in modes
    assert "/opt/a: mtime 1 and 2." in times
    # Builders set times differently, so the sealed tree has none.
    assert any(line.startswith("Same sealed file tree: ") for line in times)
    assert any(line.startswith("Sealed file trees differ: ") for line in modes)


def test_a_changed_configuration_is_named(make_layout: Make) -> None:
    one, other = make_layout("one", FILES), make_layout("other", FILES)
    image = read_image(other)
    config = other / "blobs" / "sha256" / image.config_digest.removeprefix("sha256:")
    changed = config.read_bytes().replace(b'"amd64"', b'"arm64"')
    _replace_config(other, changed)
    _, lines = compare_images(one, other)
    assert "configuration.architecture: 'amd64' and 'arm64'." in lines
    assert lines[-1].startswith("No path differs")


def _replace_config(layout: Path, content: bytes) -> None:
    blobs = layout / "blobs" / "sha256"
    index = json.loads((layout / "index.json").read_text())
    manifest_path = blobs / index["manifests"][0]["digest"].removeprefix("sha256:")
    manifest = json.loads(manifest_path.read_text())
    manifest["config"]["digest"] = _put(blobs, content)
    index["manifests"][0]["digest"] = _put(blobs, json.dumps(manifest).encode())
    (layout / "index.json").write_text(json.dumps(index))


def _put(blobs: Path, content: bytes) -> str:
    partial = blobs / "new"
    partial.write_bytes(content)
    digest = digest_of(partial)
    partial.rename(blobs / digest)
    return f"sha256:{digest}"


def test_a_blob_with_other_content_is_refused(make_layout: Make) -> None:
    layout = make_layout("one", FILES)
    image = read_image(layout)
    image.layers[0].path.write_bytes(image.layers[0].path.read_bytes() + b"x")
    with pytest.raises(ImageError, match="does not have the content that its name says"):
        read_image(layout)


def test_layers_lie_over_each_other(tmp_path: Path, make_layout: Make) -> None:
    below = read_image(make_layout("below", {"a/x": b"1", "a/y": b"2", "b/z": b"3", "c": b"4"}))
    above = read_image(
        make_layout("above", {"a/.wh.x": b"", "b/.wh..wh..opq": b"", "b/new": b"5", "c": b"6"})
    )
    tree: dict[str, Found] = {}
    for number, image in enumerate((below, above)):
        read_layer_tree(image.layers[0], number, tree)
    assert sorted(tree) == ["a/y", "b/new", "c"]
    assert tree["c"].layer == 1


def test_a_file_takes_the_place_of_a_folder_with_all_in_it(make_layout: Make) -> None:
    below = read_image(make_layout("below", {"a/": b"", "a/x": b"1", "b": b"2"}))
    above = read_image(make_layout("above", {"a": b"3", "b/": b""}))
    tree: dict[str, Found] = {}
    for number, image in enumerate((below, above)):
        read_layer_tree(image.layers[0], number, tree)
    assert {path: one.entry.kind for path, one in tree.items()} == {"a": "file", "b": "folder"}


def test_a_plain_tree_is_never_looked_through(
    make_layout: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("with tens of thousands of paths that takes minutes")

    monkeypatch.setattr(tree_module, "_remove", refuse)
    assert len(image_entries(read_image(make_layout("plain", FILES)))) == len(FILES)


def test_a_compressed_layer_and_a_hard_link_are_read(tmp_path: Path) -> None:
    plain = tmp_path / "layer.tar"
    with tarfile.open(plain, "w") as tar:
        member = tarfile.TarInfo("a")
        tar.addfile(member)
        link = tarfile.TarInfo("b")
        link.type, link.linkname = tarfile.LNKTYPE, "a"
        tar.addfile(link)
    packed = tmp_path / "layer.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    tree: dict[str, Found] = {}
    read_layer_tree(Layer("sha256:x", "application/x.tar+gzip", packed), 0, tree)
    assert tree["b"].entry.content == tree["a"].entry.content
    assert tree["b"].entry.path == "b"


def test_the_tree_of_an_image_is_the_tree_of_its_files_on_disk(
    tmp_path: Path, make_layout: Make
) -> None:
    image = read_image(make_layout("one", FILES))
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["tar", "-xpf", image.layers[0].path, "-C", disk], check=True)
    owned = image_entries(image)
    on_disk = {entry.path: (entry.kind, entry.mode, entry.content) for entry in read_tree(disk)}
    for path, one in owned.items():
        if path != "etc/hosts":
            assert on_disk[path] == (one.entry.kind, one.entry.mode, one.entry.content)
    assert "etc/hosts" not in on_disk
    assert image_tree_sha256(owned) == tree_sha256(one.entry for one in owned.values())


def test_the_command_says_it_with_its_status(
    make_layout: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = make_layout("one", FILES), make_layout("other", {**FILES, "opt/a": b"y"})
    assert compare_main([str(one), str(one)]) == 0
    assert compare_main([str(one), str(other)]) == 1
    assert "/opt/a: first differing byte at offset 0" in capsys.readouterr().out
    assert compare_main([str(one)]) == 0
    assert capsys.readouterr().out.strip() == image_tree_sha256(image_entries(read_image(one)))
    assert compare_main([str(one / "nothing"), str(other)]) == 4
    assert compare_main([]) == 2
