"""`python -m k3decode.export FOLDER [OP ...]`: compile kernels ahead of time, without a GPU.

Writes one object file per kernel, variant and architecture, and an index. A process that uses the
folder (`K3DECODE_KERNELS=FOLDER`, or `--kernels FOLDER` of the check) compiles nothing. With
`--apparatus` the kernels by which check and bench delay and compare are in it too.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from k3decode.host.inputs import ARCHITECTURES
from k3decode.host.kernel_library import KernelKey, write_index
from k3decode.needed_gpu import require_compiler
from k3decode.op import Part
from k3decode.registry import OPS, op_named

__all__ = ["export_kernels", "main"]

_ALL = Part()


def export_kernels(
    folder: Path,
    ops: Sequence[str],
    architectures: Sequence[str],
    *,
    apparatus: bool = False,
    part: Part = _ALL,
) -> list[KernelKey]:
    """Compile all variants of some ops and write them.

    Args:
        folder: made if it is missing; files of other kernels in it are left alone.
        ops: names; those without a kernel are an error.
        architectures: compilation targets.
        apparatus: whether to write the kernels of check and bench, too.
        part: of the variants; a folder for each part.

    Returns:
        What was written.
    """
    from k3decode.host.compilation import compiled_kernels, object_file  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    compiling = [one for name in ops for one in op_named(name).variants.values()]
    compiling += _apparatus() if apparatus else []
    kernels = [
        kernel
        for compile_all in part.taken(compiling)
        for architecture in architectures
        for kernel in _parts(compile_all(architecture))
    ]
    keys = {id(compiled): key for key, compiled in compiled_kernels().items()}
    written = []
    for kernel in kernels:
        key = keys[id(kernel)]
        partial = folder / f"{key.symbol}.partial"
        partial.write_bytes(object_file(kernel, key.symbol))
        partial.replace(folder / f"{key.symbol}.o")
        written.append(key)
    write_index(folder, written, f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}")
    return written


def _apparatus() -> list[Callable[[str], Any]]:
    from k3decode.comm.repeated import compile_late_words  # noqa: PLC0415
    from k3decode.jitter import compile_delays  # noqa: PLC0415
    from k3decode.read_rate import compile_read  # noqa: PLC0415

    return [compile_delays, compile_read, compile_late_words]


def _parts(compiled: Any) -> tuple[Any, ...]:
    return compiled if isinstance(compiled, tuple) else (compiled,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.export", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("op", nargs="*", help="ops to compile; all of them by default")
    parser.add_argument("--architecture", action="append", choices=list(ARCHITECTURES.values()))
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th of the variants")
    parser.add_argument("--apparatus", action="store_true", help="kernels of check and bench, too")
    options = parser.parse_args(arguments)
    try:
        ops = [op_named(name).name for name in options.op] or [op.name for op in OPS]
        part = Part.of(options.part)
    except ValueError as error:
        parser.error(str(error))
    require_compiler(parser)
    written = export_kernels(
        options.folder,
        ops,
        options.architecture or list(ARCHITECTURES.values()),
        apparatus=options.apparatus,
        part=part,
    )
    size = sum((options.folder / f"{key.symbol}.o").stat().st_size for key in written)
    print(f"{len(written)} kernels, {size / 1e6:.1f} MB, in {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
