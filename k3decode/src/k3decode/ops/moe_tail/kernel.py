# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the MoE tail: one thread adds eight columns of a row."""

import cuda.bindings.driver as cuda
from cutlass import BFloat16, Float32, Int32, Int64, cute

from k3decode.device.row_io import VECTOR_WIDTH, read_vector, row_tensor, write_vector
from k3decode.ops.moe_tail.config import MoeTailConfig

__all__ = ["MoeTailKernel"]


class MoeTailKernel:
    """Fixes the width at compile time."""

    def __init__(self, config: MoeTailConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        routed: cute.Pointer,
        shared: cute.Pointer,
        out: cute.Pointer,
        routed_stride: Int64,
        shared_stride: Int64,
        out_stride: Int64,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` rows; strides in elements."""
        c = self.config
        self.kernel(
            row_tensor(routed, c.width, routed_stride),
            row_tensor(shared, c.width, shared_stride),
            row_tensor(out, c.width, out_stride),
        ).launch(grid=[c.parts, rows, 1], block=[c.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mRouted: cute.Tensor, mShared: cute.Tensor, mOut: cute.Tensor):
        """Eight columns."""
        tid, _, _ = cute.arch.thread_idx()
        part, row, _ = cute.arch.block_idx()
        vector = part * self.config.threads + tid
        routed = read_vector(mRouted[row, None], vector).load().to(Float32)
        shared = read_vector(mShared[row, None], vector).load().to(Float32)
        rOut = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
        rOut.store((routed + shared).to(BFloat16))
        write_vector(rOut, mOut[row, None], vector)
