"""Prepared kernels: found by what they are, refused when anything differs, never compiled."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from k3decode.host import kernel_library
from k3decode.host.kernel_library import (
    VARIABLE,
    KernelKey,
    PreparedKernelError,
    library_in_use,
    open_library,
    sources_sha256,
    write_index,
)


@dataclass(frozen=True)
class _Config:
    heads: int


class _Kernel:
    def __init__(self, config: _Config | None) -> None:
        self.config = config


KEY = KernelKey.of(_Kernel(_Config(6)), "sm_90a")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / f"{KEY.symbol}.o").write_bytes(b"object")
    write_index(tmp_path, [KEY], "nvidia-cutlass-dsl 4.8.0")
    return tmp_path


def test_keys_differ_in_kernel_configuration_and_architecture() -> None:
    other = [
        KernelKey.of(_Kernel(_Config(12)), "sm_90a"),
        KernelKey.of(_Kernel(_Config(6)), "sm_100a"),
    ]
    assert len({KEY.symbol, *(key.symbol for key in other)}) == 3
    assert KernelKey.of(_Kernel(_Config(6)), "sm_90a") == KEY


def test_a_kernel_without_configuration_has_no_key() -> None:
    with pytest.raises(TypeError, match=r"expected _Kernel\.config"):
        KernelKey.of(_Kernel(None), "sm_90a")


def test_a_written_library_opens(folder: Path) -> None:
    assert open_library(folder).symbols == {KEY.symbol}


def test_a_kernel_that_is_not_there_is_an_error(folder: Path) -> None:
    absent = KernelKey.of(_Kernel(_Config(12)), "sm_90a")
    with pytest.raises(PreparedKernelError, match=r"expected _Config\(heads=12\) for sm_90a"):
        open_library(folder).kernel(absent)


def test_a_changed_object_file_is_refused(folder: Path) -> None:
    (folder / f"{KEY.symbol}.o").write_bytes(b"objecT")
    with pytest.raises(PreparedKernelError, match="expected the digest"):
        open_library(folder).kernel(KEY)


def _without_index(folder: Path) -> None:
    (folder / "library.json").unlink()


def _with_noise(folder: Path) -> None:
    (folder / "library.json").write_text("[]")


def _of_other_sources(folder: Path) -> None:
    index = json.loads((folder / "library.json").read_text())
    index["sources_sha256"] = "0" * 64
    (folder / "library.json").write_text(json.dumps(index))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without_index, "expected library.json in"),
        (_with_noise, "as an export writes it"),
        (_of_other_sources, "expected kernels of these sources"),
    ],
)
def test_a_library_that_does_not_fit_is_refused(
    change: Callable[[Path], None], words: str, folder: Path
) -> None:
    change(folder)
    with pytest.raises(PreparedKernelError, match=words):
        open_library(folder)


def test_the_sources_of_an_op_are_fewer_than_all_and_its_own() -> None:
    digests = {sources_sha256(), sources_sha256("kda"), sources_sha256("router")}
    assert len(digests) == 3
    assert sources_sha256("kda") in digests


def test_the_environment_names_a_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert library_in_use() is None
    monkeypatch.setenv(VARIABLE, str(folder))
    library = library_in_use()
    assert library is not None
    assert library.symbols == {KEY.symbol}


def test_a_chosen_library_goes_before_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_library, "_chosen", [])
    monkeypatch.setenv(VARIABLE, str(folder / "none"))
    kernel_library.use_library(folder)
    library = library_in_use()
    assert library is not None
    assert library.symbols == {KEY.symbol}
