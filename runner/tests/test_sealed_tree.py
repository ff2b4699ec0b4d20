"""The digest of an image's file tree: what changes it, and what must not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from k3runner import sealed_tree
from k3runner.image_tree import IMAGE_MARK, read_image_tree
from k3runner.sealed_tree import (
    Entry,
    UnreadableTreeError,
    is_left_out,
    mount_points,
    read_tree,
    tree_sha256,
)

FILE = Entry("opt/a/file", "file", 0o644, 0, 0, "ab" * 32)
FOLDERS = (Entry("opt", "folder", 0o755, 0, 0, ""), Entry("opt/a", "folder", 0o755, 0, 0, ""))
TREE = (*FOLDERS, FILE, Entry("opt/link", "link", 0o777, 0, 0, "a/file"))


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A small image, with what a container engine puts over it."""
    root = tmp_path / "root"
    for path, text in (
        (IMAGE_MARK, "{}"),
        (Path("usr/lib/engine.py"), "engine"),
        (Path("etc/hosts"), "127.0.0.1 here"),
        (Path("tmp/note"), "not the image's"),
        (Path("usr/lib/libcuda.so.1"), "the driver's"),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "usr/lib/libcuda.so").symlink_to("libcuda.so.1")
    return root


def _mounts(tmp_path: Path, *points: str) -> Path:
    lines = [f"22 1 0:1 / {point} rw - overlay none rw" for point in ("/", "/proc", *points)]
    path = tmp_path / "mountinfo"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_order_of_entries_does_not_matter() -> None:
    assert tree_sha256(TREE) == tree_sha256(reversed(TREE))


@pytest.mark.parametrize(
    "other",
    [
        replace(FILE, mode=0o755),
        replace(FILE, uid=1),
        replace(FILE, gid=1),
        replace(FILE, content="cd" * 32),
        replace(FILE, path="opt/a/other"),
        replace(FILE, kind="link", content="elsewhere"),
    ],
)
def test_every_field_of_an_entry_counts(other: Entry) -> None:
    assert tree_sha256((*FOLDERS, other)) != tree_sha256((*FOLDERS, FILE))


def test_a_folder_counts_when_something_lies_in_it() -> None:
    empty = Entry("mnt", "folder", 0o755, 0, 0, "")
    assert tree_sha256((*TREE, empty)) == tree_sha256(TREE)
    opened = (FOLDERS[0], replace(FOLDERS[1], mode=0o777), FILE)
    assert tree_sha256(opened) != tree_sha256((*FOLDERS, FILE))


@pytest.mark.parametrize("path", ["proc/1/stat", "etc/hosts", "results/runs/x", "tmp"])
def test_what_container_engines_write_is_left_out(path: str) -> None:
    assert is_left_out(path)
    assert tree_sha256((*TREE, replace(FILE, path=path))) == tree_sha256(TREE)


@pytest.mark.parametrize("path", ["etc/hosts.allow", "opt/tmp", "usr/bin/python3", "results2/x"])
def test_what_only_looks_like_it_is_not_left_out(path: str) -> None:
    assert not is_left_out(path)
    assert tree_sha256((*TREE, replace(FILE, path=path))) != tree_sha256(TREE)


def test_mount_points_are_read_with_their_blanks() -> None:
    text = (
        "22 1 0:1 / / rw - overlay none rw\n"
        r"23 22 0:2 / /opt/a\040folder rw - ext4 /dev/x rw" + "\n"
        "24 22 0:3 / /m\u00fcnch rw - ext4 /dev/x rw\n"
    )
    assert mount_points(text) == {"opt/a folder", "m\u00fcnch"}


def test_the_tree_inside_is_the_tree_of_the_image(image: Path, tmp_path: Path) -> None:
    mounts = _mounts(tmp_path, "/usr/lib/libcuda.so.1")
    inside = read_image_tree("sha256:" + "0" * 64, root=image, mounts=mounts)
    (image / "usr/lib/libcuda.so").unlink()
    (image / "usr/lib/libcuda.so.1").unlink()
    assert inside.sha256 == tree_sha256(read_tree(image))
    assert inside.remarks == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "usr/lib/engine.py").write_text("other"),
        lambda root: (root / "usr/lib/engine.py").chmod(0o600),
        lambda root: (root / "usr/lib/more.py").touch(),
        lambda root: (root / "usr/lib/engine.py").unlink(),
    ],
)
def test_a_changed_file_changes_the_digest(
    image: Path, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    mounts = _mounts(tmp_path)
    before = read_image_tree(None, root=image, mounts=mounts).sha256
    change(image)
    assert read_image_tree(None, root=image, mounts=mounts).sha256 not in {before, None}


def test_a_file_that_something_is_mounted_over_changes_the_digest(
    image: Path, tmp_path: Path
) -> None:
    before = read_image_tree(None, root=image, mounts=_mounts(tmp_path)).sha256
    over = _mounts(tmp_path, "/usr/lib/engine.py")
    assert read_image_tree(None, root=image, mounts=over).sha256 not in {before, None}


def test_a_digest_that_nobody_asserts_is_said(image: Path, tmp_path: Path) -> None:
    found = read_image_tree(None, root=image, mounts=_mounts(tmp_path))
    assert found.sha256 is not None
    assert [remark.split(":")[0] for remark in found.remarks] == ["Image digest not asserted"]


def test_outside_of_an_image_there_is_no_tree(tmp_path: Path) -> None:
    found = read_image_tree(None, root=tmp_path, mounts=tmp_path / "nothing")
    assert (found.sha256, found.remarks) == (None, ())


def test_a_file_that_cannot_be_read_leaves_no_digest(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Root reads everything, so the refusal is made here.
    opened = Path.open

    def refuse(self: Path, *arguments: object, **named: object) -> object:
        if self.name == "engine.py":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, *arguments, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnreadableTreeError, match=r"/usr/lib/engine\.py"):
        read_tree(image)
    found = read_image_tree("sha256:" + "0" * 64, root=image, mounts=_mounts(tmp_path))
    assert found.sha256 is None
    assert "cannot be read as this user" in found.remarks[0]


def test_a_large_tree_is_read_by_processes_and_has_the_same_digest(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (image / "usr/lib/a name\nof two lines \udcff").write_text("odd")
    (image / "usr/lib/large").write_bytes(bytes(3 << 20))
    alone = read_tree(image)
    monkeypatch.setattr(sealed_tree, "_FILES_ALONE", 0)
    monkeypatch.setattr(sealed_tree, "_digest", lambda _: None)
    assert read_tree(image) == alone


def test_a_file_that_another_process_cannot_read_is_named(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_tree, "_FILES_ALONE", 0)
    read = sealed_tree._read_apart

    def take_away(root: Path, paths: list[str]) -> dict[str, str | None]:
        (image / "usr/lib/engine.py").unlink(missing_ok=True)
        return read(root, paths)

    monkeypatch.setattr(sealed_tree, "_read_apart", take_away)
    with pytest.raises(UnreadableTreeError, match=r"1 of its paths .* /usr/lib/engine\.py"):
        read_tree(image)


def test_a_process_that_ends_early_leaves_no_digest(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_tree, "_FILES_ALONE", 0)
    monkeypatch.setattr("k3runner.sealed_tree.sys.executable", "/bin/true")
    found = read_image_tree(None, root=image, mounts=_mounts(tmp_path))
    assert found.sha256 is None
    assert "The file tree of the image has no digest" in found.remarks[-1]
