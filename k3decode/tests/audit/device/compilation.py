# mypy: ignore-errors
"""Compiles a small kernel without a GPU; machine code and PTX stay in memory."""

import os
import tempfile

# Read by the compiler when it is imported.
os.environ.update({"CUTE_DSL_KEEP": "ptx,cubin", "CUTE_DSL_DUMP_DIR": tempfile.mkdtemp()})

from cutlass import Float32, Int32, cute
from cutlass.cute.runtime import make_fake_stream, make_ptr
from cutlass.cute.typing import AddressSpace

from .audited import KERNELS
from .tensor_copies import TENSOR_KERNELS

__all__ = ["ALL_KERNELS", "compile_small_kernel"]

ALL_KERNELS = {**KERNELS, **TENSOR_KERNELS}
"""Name -> kernel."""

_ALIGNMENT_BYTES = 16


def compile_small_kernel(kernel: type, architecture: str) -> tuple[bytes, str]:
    """Machine code and PTX of one of the small kernels."""
    pointers = [
        make_ptr(element, _ALIGNMENT_BYTES, AddressSpace.gmem, assumed_align=_ALIGNMENT_BYTES)
        for element in (Float32, Float32, Int32, Float32)
    ]
    compiled = cute.compile(
        kernel(), *pointers, Int32(1), make_fake_stream(), options=f"--gpu-arch {architecture}"
    )
    return bytes(compiled.artifacts.CUBIN), str(compiled.artifacts.PTX)
