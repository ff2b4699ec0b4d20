"""Writes the disassembly of the small kernels: `python -m tests.audit.fixture_files`.

Run it in the folder k3decode, where nvidia-cutlass-dsl and nvidia-cuda-nvdisasm are installed. Most
tests read what it wrote, so they need neither. Only what the audit reads is kept.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from k3decode.audit.disassembler import disassemble

from .device.compilation import ALL_KERNELS, compile_small_kernel
from .expectations import ARCHITECTURES, FIXTURES

_KEPT_ATTRIBUTES = ("KPARAM_INFO", "PARAM_CBANK")


def shortened(text: str) -> str:
    """Text of nvdisasm without what the audit does not read."""
    target = re.search(r"^\s*\.target.*\n", text, re.MULTILINE)
    starts = [match.start() for match in re.finditer(r"^//-{10,}.*\n", text, re.MULTILINE)]
    sections = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    kept = [target[0] if target else ""]
    for section in sections:
        name = section.split(None, 2)[1]
        if name.startswith(".text."):
            kept.append(re.sub(r".*\bNOP;.*\n", "", section))
        elif name.startswith(".nv.info."):
            head, *attributes = re.split(r"(?=\t//----- nvinfo)", section)
            kept.append(head + "".join(a for a in attributes if _is_kept(a)))
    return "\n".join(kept)


def _is_kept(attribute: str) -> bool:
    return any(f"EIATTR_{name}\n" in attribute for name in _KEPT_ATTRIBUTES)


def write(folder: Path, names: Sequence[str], *, keep_cubin: bool) -> None:
    """Write one file for each kernel, architecture and dialect."""
    folder.mkdir(exist_ok=True)
    for name in names:
        for architecture in ARCHITECTURES:
            cubin, ptx = compile_small_kernel(ALL_KERNELS[name], architecture)
            path = folder / f"{name}.{architecture}.cubin"
            path.write_bytes(cubin)
            path.with_suffix(".sass").write_text(shortened(disassemble(path)))
            if not keep_cubin:
                path.unlink()
            if architecture == ARCHITECTURES[0]:
                path.with_suffix(".ptx").write_text(ptx)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", help="kernels; all of them by default")
    parser.add_argument("--folder", type=Path, default=FIXTURES)
    parser.add_argument("--cubin", action="store_true", help="keep the machine code, too")
    options = parser.parse_args()
    write(options.folder, options.name or list(ALL_KERNELS), keep_cubin=options.cubin)
