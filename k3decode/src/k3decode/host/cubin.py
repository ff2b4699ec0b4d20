"""What a compiled kernel uses, read from its ELF image.

Registers and stack are attributes of the section `.nv.info`: entries of format byte, attribute
byte, 16-bit size, and here a symbol index and a value of 32 bits each.
"""

import struct
from dataclasses import dataclass

__all__ = ["CubinError", "KernelUsage", "kernel_usage"]

_SIZED_FORMAT = 4
_REGISTER_COUNT = 0x2F
_FRAME_SIZE = 0x11


class CubinError(ValueError):
    """The bytes are no image of exactly one kernel."""


@dataclass(frozen=True)
class KernelUsage:
    """Resources of one kernel."""

    registers: int
    """Per thread."""
    stack_bytes: int
    """Per thread; what does not fit registers lives there."""
    shared_bytes: int
    """Static shared memory of a CTA, without what the launch adds."""
    code_bytes: int


@dataclass(frozen=True)
class _Section:
    name: str
    offset: int
    size: int


def kernel_usage(image: bytes) -> KernelUsage:
    """Read an image that holds one kernel.

    Raises:
        CubinError: it is no 64-bit ELF image, or holds no kernel or several.
    """
    sections = _sections(image)
    code = [s for s in sections if s.name.startswith(".text.")]
    if len(code) != 1:
        raise CubinError(f"expected one kernel in the image, found {len(code)}")
    kernel = code[0].name.removeprefix(".text.")
    info = [s for s in sections if s.name == ".nv.info"]
    if len(info) != 1:
        raise CubinError(f"expected one section .nv.info, found {len(info)}")
    values = _attributes(image[info[0].offset : info[0].offset + info[0].size])
    if _REGISTER_COUNT not in values or _FRAME_SIZE not in values:
        raise CubinError(f"expected registers and stack of {kernel} in .nv.info, found neither")
    return KernelUsage(
        registers=values[_REGISTER_COUNT],
        stack_bytes=values[_FRAME_SIZE],
        shared_bytes=sum(s.size for s in sections if s.name == f".nv.shared.{kernel}"),
        code_bytes=code[0].size,
    )


def _sections(image: bytes) -> list[_Section]:
    if image[:5] != b"\x7fELF\x02":
        raise CubinError(f"expected a 64-bit ELF image, found the bytes {image[:5]!r}")
    (table,) = struct.unpack_from("<Q", image, 0x28)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", image, 0x3A)
    raw = [
        struct.unpack_from("<IIQQQQ", image, table + entry_bytes * index) for index in range(count)
    ]
    names_offset = raw[names_index][4]

    def name(start: int) -> str:
        first = names_offset + start
        return image[first : image.index(b"\0", first)].decode()

    return [_Section(name(r[0]), r[4], r[5]) for r in raw]


def _attributes(section: bytes) -> dict[int, int]:
    """Attributes that are a symbol and a value; the largest value where several symbols have it."""
    found: dict[int, int] = {}
    at = 0
    while at + 4 <= len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form != _SIZED_FORMAT:
            continue
        if size == struct.calcsize("<II"):
            _, value = struct.unpack_from("<II", section, at)
            found[attribute] = max(value, found.get(attribute, 0))
        at += size
    return found
