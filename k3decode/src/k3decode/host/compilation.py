# mypy: ignore-errors
"""Compilation of CuTe kernels and the arguments their compiled form takes.

Kernels take raw pointers, strides and row counts, so one compiled variant serves every number of
rows and every stride. Compiling needs no GPU. With a library of prepared kernels in use nothing is
compiled: what it lacks is an error.
"""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import torch
from cutlass import Float32, Int32, Int64, cute
from cutlass.cute.runtime import load_module, make_fake_stream, make_ptr
from cutlass.cute.typing import AddressSpace
from cutlass.runtime import find_runtime_libraries

from k3decode.host.kernel_library import KernelKey, library_in_use

__all__ = [
    "byte_pointer",
    "compile_kernel",
    "compiled_kernels",
    "current_stream",
    "device_pointer",
    "forbid_compiler",
    "load_object_file",
    "object_file",
    "placeholders",
]

_NUMERIC = {
    torch.bfloat16: cutlass.BFloat16,
    torch.float32: cutlass.Float32,
    torch.float8_e4m3fn: cutlass.Float8E4M3FN,
    torch.int32: cutlass.Int32,
    torch.int64: cutlass.Int64,
    torch.uint8: cutlass.Uint8,
}
_ALIGNMENT_BYTES = 16
# Index lists may start anywhere; everything else is read 16 bytes at a time somewhere.
_INDEX_ALIGNMENT = {torch.int32: 4, torch.int64: 8}

_compiled: dict[KernelKey, Any] = {}


def device_pointer(tensor: torch.Tensor) -> Any:
    """Pointer to a tensor's first element, aligned as the kernels assume for its dtype."""
    return _pointer(tensor.dtype, tensor.data_ptr())


def byte_pointer(tensor: torch.Tensor) -> Any:
    """Pointer to the bytes of a tensor, which may start anywhere."""
    return make_ptr(cutlass.Uint8, tensor.data_ptr(), AddressSpace.gmem, assumed_align=1)


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
    """Compile for an architecture ("sm_90a"), or take the kernel from the library in use.

    Args:
        kernel: object with `config`, whose repr with the kernel's class names the variant.
        arguments: placeholders for the kernel's parameters without the stream.
        architecture: compilation target.

    Returns:
        What is called with arguments and a stream.

    Raises:
        PreparedKernelError: a library is in use and does not have this kernel.
    """
    key = KernelKey.of(kernel, architecture)
    library = library_in_use()
    if library is not None:
        return library.kernel(key)
    compiled = cute.compile(
        kernel, *arguments, make_fake_stream(), options=f"--gpu-arch {architecture}"
    )
    _compiled[key] = compiled
    return compiled


def compiled_kernels() -> Mapping[KernelKey, Any]:
    """What this process has compiled so far."""
    return MappingProxyType(_compiled)


def object_file(compiled: Any, symbol: str) -> bytes:
    """A compiled kernel with its launch code as an object file.

    Args:
        compiled: what `compile_kernel` returned, of a process without a library in use.
        symbol: name under which the kernel is found in the file.
    """
    # Writing the file resolves the launch code's calls, which needs the runtime in this process.
    for library in find_runtime_libraries(enable_tvm_ffi=False):
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    return compiled.dump_to_object(symbol)


def load_object_file(path: Path, symbol: str) -> Any:
    """A kernel of an object file, called like the compiled one."""
    return load_module(str(path))[symbol]


def forbid_compiler() -> None:
    """Replace the compiler of this process by one that raises."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("the compiler was called where only prepared kernels may run")

    cute.compile = refuse


def _pointer(dtype: torch.dtype, address: int) -> Any:
    align = _INDEX_ALIGNMENT.get(dtype, _ALIGNMENT_BYTES)
    return make_ptr(_NUMERIC[dtype], address, AddressSpace.gmem, assumed_align=align)
