"""Kernels compiled ahead of time: what is in their files, and what is refused."""

import hashlib
import json
import platform
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from k3decode import library_check
from k3decode.library_check import check_library, device_images, main

SYMBOL = "k3_00"
ENTRY = {"kernel": "some.Kernel", "config": "Config()", "architecture": "sm_103a"}
HOST = {"x86_64": 62, "aarch64": 183}[platform.machine()]


def elf(machine: int, flags: int, sections: Mapping[str, bytes]) -> bytes:
    """A 64-bit ELF image of named sections."""
    names = b"\0"
    rows = [b"\0" * 64]
    body = bytearray(64)
    for name, content in (*sections.items(), (".shstrtab", b"")):
        at = len(names)
        names += name.encode() + b"\0"
        held = names if name == ".shstrtab" else content
        rows.append(struct.pack("<IIQQQQIIQQ", at, 1, 0, 0, len(body), len(held), 0, 0, 0, 0))
        body += held
    body[:16] = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    struct.pack_into("<HHIQQQI", body, 16, 1, machine, 1, 0, 0, len(body), flags)
    struct.pack_into("<HHH", body, 0x3A, 64, len(rows), len(rows) - 1)
    return bytes(body) + b"".join(rows)


def cubin(capability: int, *, holds: bool = True) -> bytes:
    """An image for a GPU, with one kernel or none."""
    usage = b"".join(
        struct.pack("<BBHII", 4, attribute, 8, 1, 16) for attribute in (0x2F, 0x11)
    )  # fmt: skip
    text = {".text.some_kernel": b"\0" * 16} if holds else {}
    names = b"\0some_kernel\0"
    symbols = b"\0" * 24 + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, 16)
    sections = {**text, ".nv.info": usage, ".symtab": symbols, ".strtab": names}
    return elf(190, capability << 8 | 4, sections)


def write(folder: Path, content: bytes) -> Path:
    (folder / f"{SYMBOL}.o").write_bytes(content)
    entry = {**ENTRY, "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "library.json").write_text(json.dumps({"kernels": {SYMBOL: entry}}))
    return folder


def host(inside: bytes, symbol: str = SYMBOL, machine: int = HOST) -> bytes:
    return elf(machine, 0, {".strtab": f"\0{symbol}_load\0".encode(), ".data": inside})


def test_an_image_says_its_architecture_and_its_kernels() -> None:
    (image,) = device_images(host(cubin(103)))
    assert (image.capability, image.kernels) == (103, ("some_kernel",))
    assert device_images(host(b"")) == ()


def test_a_whole_library_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(write(tmp_path, host(cubin(103))))]) == 0
    assert capsys.readouterr().out == "1 kernels for sm_103a\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (host(cubin(100)), "expected an image for sm_103a, found sm_100"),
        (host(b""), "expected an image for sm_103a, found none"),
        (host(cubin(103, holds=False)), "expected a kernel in the image, found none"),
        (host(cubin(103), symbol="k3_other"), "the file does not define its symbol"),
        (host(cubin(103), machine=8), f"expected an ELF file of machine {HOST}, found"),
        (b"no object file", f"expected an ELF file of machine {HOST}, found"),
    ],
)
def test_what_is_wrong_is_said_of_the_kernel(tmp_path: Path, content: bytes, sentence: str) -> None:
    _, (said,) = check_library(write(tmp_path, content))
    assert said.startswith(f"{SYMBOL} (some.Kernel): ")
    assert sentence in said


def test_a_changed_file_and_an_empty_folder_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, host(cubin(103)))
    (tmp_path / f"{SYMBOL}.o").write_bytes(host(cubin(103)) + b"x")
    assert main([str(tmp_path)]) == 1
    assert "not the one that was written" in capsys.readouterr().err
    with pytest.raises(SystemExit) as refused:
        main([str(tmp_path / "nothing")])
    assert refused.value.code == 2
    assert "write one with python -m k3decode.export" in capsys.readouterr().err


def test_the_index_is_the_one_that_an_export_writes() -> None:
    from k3decode.host import kernel_library  # noqa: PLC0415

    assert library_check._INDEX == kernel_library._INDEX
