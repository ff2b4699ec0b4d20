"""A changed byte in any input is refused by name, and what is pinned is current."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from k3image.debian import fetch_packages
from k3image.inputs import DebianPackage, Inputs, check_file, digest_of, read_inputs
from k3image.pin import MARK, tail
from k3image.problem import EXIT_INPUT, ImageError
from k3image.source import export_source, find_source
from k3image.wheels import check_wheels, fetch_lock, read_pins


@pytest.fixture
def inputs(root: Path) -> Inputs:
    return read_inputs(root / "image" / "inputs.toml")


def test_every_lock_is_pinned_as_it_is(inputs: Inputs, root: Path) -> None:
    stale = [lock.file for lock in inputs.locks if digest_of(root / lock.file) != lock.sha256]
    assert stale == [], "run: make image-inputs LOCKS_ONLY=1"


def test_every_flavour_is_made_of_what_is_pinned(inputs: Inputs, root: Path) -> None:
    pinned = {lock.file for lock in inputs.locks}
    assert {flavour.name for flavour in inputs.flavours} >= {"cpu", "gpu", "registry"}
    for flavour in inputs.flavours:
        assert inputs.packages_of(flavour.packages, flavour.architectures[0])
        for machine in ("x86_64", "aarch64"):
            assert set(flavour.locks(machine)) <= pinned, flavour.name
        for folder in (folder for folders in flavour.own.values() for folder in folders):
            assert (root / folder / "pyproject.toml").is_file()
    assert set(inputs.build_locks) <= pinned


def test_both_architectures_have_the_same_packages(inputs: Inputs) -> None:
    for name in inputs.roots:
        one, other = (
            {p.name: p.version.split("+b")[0] for p in inputs.packages_of(name, architecture)}
            for architecture in ("amd64", "arm64")
        )
        assert len(one) > 100
        shared = one.keys() & other.keys()
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}
        # Compilers have parts that only one machine has.
        assert len(one.keys() ^ other.keys()) <= 4
    assert all(re.fullmatch(r"[0-9a-f]{64}", package.sha256) for package in inputs.packages)


def test_a_changed_byte_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    expected = digest_of(path)
    check_file(path, "thing", expected)
    path.write_bytes(b"contenu")
    with pytest.raises(ImageError, match=rf"The input thing is not .* expected sha256:{expected}"):
        check_file(path, "thing", expected)
    path.unlink()
    with pytest.raises(ImageError, match="The input thing is missing"):
        check_file(path, "thing", expected)


def test_a_changed_debian_package_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "adduser_1_all.deb").write_bytes(b"other")
    package = DebianPackage(
        "adduser", "1", "amd64", "pool/adduser_1_all.deb", 5, "0" * 64, ("evaluation",)
    )
    with pytest.raises(ImageError, match="The input Debian package adduser 1 is not") as refused:
        fetch_packages([package], tmp_path)
    assert refused.value.exit_code == EXIT_INPUT


def _lock(tmp_path: Path, wheel: bytes = b"wheel", condition: str = "") -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir(exist_ok=True)
    path = folder / "some_thing-1.0+cpu-py3-none-any.whl"
    path.write_bytes(wheel)
    lock = tmp_path / "some.txt"
    lock.write_text(f"some-thing==1.0+cpu{condition} \\\n    --hash=sha256:{digest_of(path)}\n")
    return lock


def test_a_changed_wheel_is_refused_by_name(tmp_path: Path) -> None:
    pins = read_pins(_lock(tmp_path).read_text())
    (found,) = check_wheels(pins, tmp_path / "wheels")
    assert (found.name, found.version) == ("some-thing", "1.0+cpu")
    assert found.sha256 == digest_of(found.path)
    wheel = found.path
    wheel.write_bytes(b"other")
    with pytest.raises(ImageError, match=r"The input wheel some-thing 1\.0\+cpu is not one that"):
        check_wheels(pins, tmp_path / "wheels")
    wheel.unlink()
    with pytest.raises(ImageError, match=r"The input wheel some-thing 1\.0\+cpu is missing"):
        check_wheels(pins, tmp_path / "wheels")


def test_a_wheel_for_other_machines_may_be_missing(tmp_path: Path) -> None:
    lock = _lock(tmp_path, condition=" ; sys_platform == 'win32'")
    for path in (tmp_path / "wheels").iterdir():
        path.unlink()
    assert check_wheels(read_pins(lock.read_text()), tmp_path / "wheels") == ()


def test_a_changed_lock_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    lock = _lock(tmp_path)
    with pytest.raises(ImageError, match=r"The input lock some\.txt is not the one"):
        fetch_lock(lock, "0" * 64, tmp_path / "no-python", tmp_path / "cache")


def test_every_pin_of_our_locks_is_read(root: Path, inputs: Inputs) -> None:
    for lock in inputs.locks:
        text = (root / lock.file).read_text()
        pins = read_pins(text)
        assert len(pins) == len(re.findall(r"(?m)^[A-Za-z0-9]", text)), lock.file
        assert all(pin.digests for pin in pins)


def test_what_is_written_is_what_is_read(inputs: Inputs, root: Path, tmp_path: Path) -> None:
    text = (root / "image" / "inputs.toml").read_text()
    rows = ['[[package]]\nname = "a"\nversion = "1"\nfor = "arm64"\nfile = "a_1_all.deb"\n'
            f'size = 1\nsha256 = "{"0" * 64}"\nsets = ["evaluation"]\n']  # fmt: skip
    path = tmp_path / "inputs.toml"
    path.write_text(text[: text.index(MARK)] + tail({"requirements/uv.txt": "1" * 64}, rows))
    found = read_inputs(path)
    assert [package.name for package in found.packages] == ["a"]
    assert replace(found, packages=(), locks=(), sha256="") == replace(
        inputs, packages=(), locks=(), sha256=""
    )


@pytest.mark.parametrize("text", ["", "[debian]\nsuite = 1", "not toml ="])
def test_a_broken_data_file_is_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "inputs.toml"
    path.write_text(text)
    with pytest.raises(ImageError, match=r"inputs\.toml cannot be read"):
        read_inputs(path)


def test_an_unknown_flavour_is_a_sentence(inputs: Inputs) -> None:
    with pytest.raises(ImageError, match="There is no flavour 'tpu'") as refused:
        inputs.flavour("tpu")
    assert refused.value.exit_code == 2


def test_the_context_has_the_modes_of_the_commit(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    folders = ("bundle", "runner", "server", "k3decode", "tools/engine_shim", "requirements",
               "image")  # fmt: skip
    for folder in folders:
        (repository / folder).mkdir(parents=True)
        (repository / folder / "file").write_text(folder)
    (repository / "image" / "file").chmod(0o700)
    (repository / "left-out").write_text("x")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *command],
            cwd=repository,
            check=True,
        )
    (repository / "bundle" / "file").write_text("changed")
    source = find_source(repository, "HEAD")
    target = tmp_path / "context"
    export_source(source, target)
    assert source.is_dirty
    assert (target / "bundle" / "file").read_text() == "bundle"
    assert (target / "bundle" / "file").stat().st_mode & 0o777 == 0o644
    assert (target / "image" / "file").stat().st_mode & 0o777 == 0o755
    assert (target / "image").stat().st_mode & 0o777 == 0o755
    assert not (target / "left-out").exists()
    with pytest.raises(ImageError, match="git has no such commit"):
        find_source(repository, "nothing")
