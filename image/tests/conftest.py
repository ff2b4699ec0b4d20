"""Small images for the tests."""

import importlib.util
import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from k3image.layout import write_base

ROOT = Path(__file__).resolve().parents[2]
MakeLayout = Callable[..., Path]


@pytest.fixture
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture
def install(root: Path) -> ModuleType:
    """What runs inside a build."""
    spec = importlib.util.spec_from_file_location("install", root / "image" / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_tar(path: Path, files: Mapping[str, bytes], *, mode: int = 0o644, mtime: int = 1) -> None:
    """Write a layer: a name that ends in a slash is a folder, content `-> x` a link to x."""
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name.rstrip("/"))
            member.mtime, member.mode = mtime, mode
            if name.endswith("/"):
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(member)
            elif content.startswith(b"-> "):
                member.type, member.linkname = tarfile.SYMTYPE, content[3:].decode()
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


@pytest.fixture
def make_layout(tmp_path: Path) -> MakeLayout:
    """A function that writes an image of one layer."""

    def make(name: str, files: Mapping[str, bytes], *, mode: int = 0o644, mtime: int = 1) -> Path:
        layer = tmp_path / f"{name}.tar"
        write_tar(layer, files, mode=mode, mtime=mtime)
        write_base(
            layer, tmp_path / name, tag="x", architecture="amd64", epoch=1764000000, labels={}
        )
        return tmp_path / name

    return make
