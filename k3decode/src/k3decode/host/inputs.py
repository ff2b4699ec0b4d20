"""Checks of a launch's inputs: everything wrong is reported at once, before any launch."""

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["ARCHITECTURES", "MAX_ROWS", "InputCheck", "KernelInputError", "UnsupportedGpuError"]

MAX_ROWS = 64
"""Largest number of decode rows the kernels are checked for."""

ARCHITECTURES = {(9, 0): "sm_90a", (10, 0): "sm_100a", (10, 3): "sm_103a"}
"""Compute capability -> compilation target of the GPUs the kernels are compiled for."""

_ALIGNMENT_BYTES = 16
# Kernels read these one at a time; everything else is read 16 bytes at a time somewhere.
_INDICES = frozenset({torch.int32, torch.int64})
# So begin the names of most of what launches write. Others, such as caches, states and `fp32_out`,
# are not looked at for overlap; rows of inputs may well be one and the same.
_WRITTEN = "out"


class KernelInputError(ValueError):
    """A launch was refused; the text says what was expected and what was found."""


class UnsupportedGpuError(RuntimeError):
    """The GPU is none of those the kernels are compiled for."""


class InputCheck:
    """Collects what is wrong with one launch."""

    def __init__(self, op: str) -> None:
        self._op = op
        self._problems: list[str] = []
        self._first: tuple[str, Tensor] | None = None

    def rows(self, rows: int) -> None:
        """Accept 1 to `MAX_ROWS` rows."""
        if not 1 <= rows <= MAX_ROWS:
            self._problems.append(f"expected 1 to {MAX_ROWS} rows, found {rows}: split the batch")

    def require(self, condition: bool, problem: str) -> None:
        """Add a problem unless the condition holds."""
        if not condition:
            self._problems.append(problem)

    def tensor(
        self,
        name: str,
        tensor: Tensor,
        *,
        dtype: torch.dtype,
        shape: Sequence[int | None],
        dense_from: int = 1,
        stride_multiple: int = 1,
    ) -> None:
        """Check one tensor; the first element of all but index lists must be aligned to 16 bytes.

        Args:
            name: parameter name for the sentence.
            tensor: what was passed.
            dtype: the only accepted dtype.
            shape: expected extents; None accepts any.
            dense_from: axes from this one on must be dense; earlier ones may have any stride.
            stride_multiple: strides of the axes before `dense_from` are multiples of this, which
                keeps 16-byte accesses aligned.
        """
        if tensor.dtype != dtype:
            self._problems.append(f"{name}: expected {dtype}, found {tensor.dtype}")
        if tensor.ndim != len(shape) or any(
            wanted is not None and wanted != found
            for wanted, found in zip(shape, tensor.shape, strict=False)
        ):
            wanted_text = ["any" if extent is None else extent for extent in shape]
            self._problems.append(
                f"{name}: expected shape {wanted_text}, found {list(tensor.shape)}"
            )
            return
        self._strides(name, tensor, dense_from, stride_multiple)
        if self._first is None:
            self._first = (name, tensor)
        elif tensor.device != self._first[1].device:
            first, other = self._first
            self._problems.append(
                f"{name}: expected {other.device} as {first}, found {tensor.device}"
            )

    def _strides(self, name: str, tensor: Tensor, dense_from: int, multiple: int) -> None:
        dense = 1
        for axis in range(tensor.ndim - 1, dense_from - 1, -1):
            if tensor.shape[axis] > 1 and tensor.stride(axis) != dense:
                self._problems.append(
                    f"{name}: expected stride {dense} on axis {axis}, found {tensor.stride(axis)}"
                )
                return
            dense *= tensor.shape[axis]
        for axis in range(dense_from):
            if tensor.shape[axis] > 1 and tensor.stride(axis) % multiple:
                self._problems.append(
                    f"{name}: expected a stride that is a multiple of {multiple} on axis {axis}, "
                    f"found {tensor.stride(axis)}"
                )
        rows = tensor.shape[0] if name.startswith(_WRITTEN) and dense_from == 1 else 1
        if rows > 1 and tensor.stride(0) < dense:
            self._problems.append(
                f"{name}: expected rows that do not overlap, {dense} elements apart or more, "
                f"found {tensor.stride(0)}"
            )
        if tensor.dtype in _INDICES or not tensor.numel():
            return
        if (beyond := tensor.data_ptr() % _ALIGNMENT_BYTES) != 0:
            self._problems.append(
                f"{name}: expected a first element aligned to {_ALIGNMENT_BYTES} bytes, found one "
                f"{beyond} bytes beyond such a place"
            )

    def finish(self) -> str:
        """Return the compilation target.

        Raises:
            KernelInputError: something is wrong with the inputs.
            UnsupportedGpuError: the kernels are not compiled for this GPU.
        """
        if self._first is None:
            raise KernelInputError(f"{self._op}: " + "; ".join(self._problems))
        name, tensor = self._first
        if tensor.device.type != "cuda":
            self._problems.append(f"{name}: expected a CUDA device, found {tensor.device}")
        if self._problems:
            raise KernelInputError(f"{self._op}: " + "; ".join(self._problems))
        capability = torch.cuda.get_device_capability(tensor.device)
        if capability not in ARCHITECTURES:
            raise UnsupportedGpuError(
                f"{self._op}: expected a GPU of {', '.join(ARCHITECTURES.values())}, found compute "
                f"capability {capability[0]}.{capability[1]}: use the engine's own kernels"
            )
        return ARCHITECTURES[capability]
