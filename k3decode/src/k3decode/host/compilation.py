# mypy: ignore-errors
"""Compilation of CuTe kernels and the arguments their compiled form takes.

Kernels take raw pointers, strides and row counts, so one compiled variant serves every number of
rows and every stride. Compiling needs no GPU.
"""

from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import torch
from cutlass import Float32, Int32, Int64, cute
from cutlass.cute.runtime import make_fake_stream, make_ptr
from cutlass.cute.typing import AddressSpace

__all__ = ["compile_kernel", "current_stream", "device_pointer", "placeholders"]

_NUMERIC = {
    torch.bfloat16: cutlass.BFloat16,
    torch.float32: cutlass.Float32,
    torch.int32: cutlass.Int32,
    torch.int64: cutlass.Int64,
    torch.uint8: cutlass.Uint8,
}
# Index lists may start anywhere; everything else is read 16 bytes at a time somewhere.
_INDEX_ALIGNMENT = {torch.int32: 4, torch.int64: 8}
_ALIGNMENT_BYTES = 16


def device_pointer(tensor: torch.Tensor) -> Any:
    """Pointer to a tensor's first element, aligned as the kernels assume for its dtype."""
    return _pointer(tensor.dtype, tensor.data_ptr())


def current_stream() -> cuda.CUstream:
    """Torch's current stream, so that a launch is ordered and captured with torch's own."""
    return cuda.CUstream(torch.cuda.current_stream().cuda_stream)


def placeholders(
    pointers: list[torch.dtype], strides: int, counts: int, factors: int = 0
) -> list[Any]:
    """Arguments of the right types for compilation.

    Args:
        pointers: dtypes of what is pointed to.
        strides: how many 64-bit strides follow.
        counts: how many 32-bit counts follow.
        factors: how many FP32 factors follow.
    """
    return [
        *(_pointer(dtype, _ALIGNMENT_BYTES) for dtype in pointers),
        *(Int64(_ALIGNMENT_BYTES) for _ in range(strides)),
        *(Int32(1) for _ in range(counts)),
        *(Float32(1.0) for _ in range(factors)),
    ]


def compile_kernel(kernel: object, arguments: list[Any], architecture: str) -> Any:
    """Compile for an architecture ("sm_90a"); the result is called with arguments and a stream."""
    return cute.compile(
        kernel, *arguments, make_fake_stream(), options=f"--gpu-arch {architecture}"
    )


def _pointer(dtype: torch.dtype, address: int) -> Any:
    align = _INDEX_ALIGNMENT.get(dtype, _ALIGNMENT_BYTES)
    return make_ptr(_NUMERIC[dtype], address, AddressSpace.gmem, assumed_align=align)
