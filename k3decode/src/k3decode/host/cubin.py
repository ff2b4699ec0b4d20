"""What compiled kernels use, read from their ELF image.

Registers and stack are attributes of the section `.nv.info`: entries of format byte, attribute
byte, 16-bit size, and here a symbol index and a value of 32 bits each.
"""

import struct
from dataclasses import dataclass

__all__ = ["CubinError", "KernelUsage", "kernel_usages"]

_SIZED_FORMAT = 4
_REGISTER_COUNT = 0x2F
_FRAME_SIZE = 0x11
_TEXT = ".text."
_SYMBOL_BYTES = 24


class CubinError(ValueError):
    """The bytes are no image of kernels."""


@dataclass(frozen=True)
class KernelUsage:
    """Resources of one kernel."""

    name: str
    """Symbol."""
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


def kernel_usages(image: bytes) -> tuple[KernelUsage, ...]:
    """Read an image, kernels in the order of their names.

    Raises:
        CubinError: it is no 64-bit ELF image, holds no kernel, or does not say what one uses.
    """
    sections = {section.name: section for section in _sections(image)}
    names = sorted(name.removeprefix(_TEXT) for name in sections if name.startswith(_TEXT))
    if not names:
        raise CubinError("expected a kernel in the image, found none")
    missing = {".nv.info", ".symtab", ".strtab"} - set(sections)
    if missing:
        raise CubinError(f"expected sections {', '.join(sorted(missing))}, found none of them")
    symbols = _symbols(image, sections[".symtab"], sections[".strtab"])
    values = _attributes(image, sections[".nv.info"], symbols)
    return tuple(_usage(name, sections, values.get(name, {})) for name in names)


def _usage(name: str, sections: dict[str, _Section], values: dict[int, int]) -> KernelUsage:
    if _REGISTER_COUNT not in values or _FRAME_SIZE not in values:
        raise CubinError(f"expected registers and stack of {name} in .nv.info, found neither")
    shared = sections.get(f".nv.shared.{name}")
    return KernelUsage(
        name=name,
        registers=values[_REGISTER_COUNT],
        stack_bytes=values[_FRAME_SIZE],
        shared_bytes=0 if shared is None else shared.size,
        code_bytes=sections[_TEXT + name].size,
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
    return [_Section(_text(image, names_offset + r[0]), r[4], r[5]) for r in raw]


def _text(image: bytes, start: int) -> str:
    return image[start : image.index(b"\0", start)].decode()


def _symbols(image: bytes, table: _Section, names: _Section) -> list[str]:
    """Name of each symbol."""
    count = table.size // _SYMBOL_BYTES
    starts = (
        struct.unpack_from("<I", image, table.offset + _SYMBOL_BYTES * index)[0]
        for index in range(count)
    )
    return [_text(image, names.offset + start) for start in starts]


def _attributes(image: bytes, section: _Section, symbols: list[str]) -> dict[str, dict[int, int]]:
    """Attributes that are a symbol and a value, by symbol."""
    found: dict[str, dict[int, int]] = {}
    at, end = section.offset, section.offset + section.size
    while at + 4 <= end:
        form, attribute, size = struct.unpack_from("<BBH", image, at)
        at += 4
        if form != _SIZED_FORMAT:
            continue
        if size == struct.calcsize("<II"):
            symbol, value = struct.unpack_from("<II", image, at)
            if symbol < len(symbols):
                found.setdefault(symbols[symbol], {})[attribute] = value
        at += size
    return found
