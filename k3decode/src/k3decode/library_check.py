"""`python -m k3decode.library_check FOLDER`: look into kernels that were compiled ahead of time.

No GPU and no compiler is needed. Each object file must be the one that was written, an ELF file of
this machine's architecture that defines the kernel's symbol, with an ELF image in it for the GPU
that the index names, which holds at least one kernel.
"""

import argparse
import hashlib
import json
import platform
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from k3decode.host.cubin import CubinError, kernel_usages

__all__ = ["DeviceImage", "check_library", "device_images", "main"]

_INDEX = "library.json"
_ELF = b"\x7fELF\x02"
_DEVICE_MACHINE = 190
_HOST_MACHINES = {"x86_64": 62, "aarch64": 183}
_MACHINE_OFFSET = 18
_FLAGS_OFFSET = 48


@dataclass(frozen=True)
class DeviceImage:
    """Machine code of one GPU architecture inside of an object file."""

    capability: int
    """Compute capability as one number, for example 103."""
    kernels: tuple[str, ...]
    """Symbols of its kernels."""


def device_images(content: bytes) -> tuple[DeviceImage, ...]:
    """The images in an object file, in order.

    Raises:
        CubinError: an image holds no kernel.
    """
    found = []
    for match in re.finditer(re.escape(_ELF), content):
        start = match.start()
        if _word(content, start + _MACHINE_OFFSET, "<H") != _DEVICE_MACHINE:
            continue
        flags = _word(content, start + _FLAGS_OFFSET, "<I")
        names = tuple(one.name for one in kernel_usages(content[start:]))
        found.append(DeviceImage((flags >> 8) & 0xFF, names))
    return tuple(found)


def _word(content: bytes, offset: int, form: str) -> int:
    if len(content) < offset + struct.calcsize(form):
        return 0
    (value,) = struct.unpack_from(form, content, offset)
    return int(value)


def check_library(folder: Path) -> tuple[Counter[str], list[str]]:
    """Look into every kernel of a folder.

    Returns:
        Kernels per architecture, and what is wrong, in sentences; empty when nothing is.
    """
    kernels = json.loads((folder / _INDEX).read_text())["kernels"]
    counts: Counter[str] = Counter()
    wrong = []
    for symbol, entry in sorted(kernels.items()):
        counts[entry["architecture"]] += 1
        wrong += [f"{symbol} ({entry['kernel']}): {one}" for one in _wrong(folder, symbol, entry)]
    return counts, wrong


def _wrong(folder: Path, symbol: str, entry: Mapping[str, str]) -> Iterator[str]:
    path = folder / f"{symbol}.o"
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        yield "the file is missing, or not the one that was written"
        return
    machine = _word(content, _MACHINE_OFFSET, "<H")
    expected = _HOST_MACHINES.get(platform.machine())
    if not content.startswith(_ELF) or machine != expected:
        yield f"expected an ELF file of machine {expected}, found {content[:5]!r} of {machine}"
        return
    if f"\0{symbol}".encode() not in content:
        yield "the file does not define its symbol"
    architecture = entry["architecture"]
    number = int(architecture.removeprefix("sm_").rstrip("af"))
    try:
        images = device_images(content)
    except (CubinError, struct.error) as error:
        yield f"an image in it cannot be read: {error}"
        return
    if not any(image.capability == number for image in images):
        found = ", ".join(f"sm_{image.capability}" for image in images) or "none"
        yield f"expected an image for {architecture}, found {found}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m k3decode.library_check", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    try:
        counts, wrong = check_library(options.folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        parser.error(
            f"{options.folder} is no folder of kernels ({type(error).__name__}); "
            "write one with python -m k3decode.export"
        )
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    print(", ".join(f"{count} kernels for {name}" for name, count in sorted(counts.items())))
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
