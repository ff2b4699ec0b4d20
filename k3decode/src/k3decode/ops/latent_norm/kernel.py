# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the latent norm: one CTA per row, eight columns per thread, one pass."""

import operator

import cuda.bindings.driver as cuda
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.row_io import (
    VECTOR_WIDTH,
    read_vector,
    row_tensor,
    write_vector,
)
from k3decode.ops.latent_norm.config import LatentNormConfig

__all__ = ["LatentNormKernel"]


class LatentNormKernel:
    """Fixes the width and the added constant at compile time."""

    def __init__(self, config: LatentNormConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        summed: cute.Pointer,
        weight: cute.Pointer,
        out: cute.Pointer,
        summed_stride: Int64,
        out_stride: Int64,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` rows; strides in elements."""
        c = self.config
        self.kernel(
            row_tensor(summed, c.width, summed_stride),
            cute.make_tensor(weight, cute.make_layout(c.width)),
            row_tensor(out, c.width, out_stride),
        ).launch(grid=[rows, 1, 1], block=[c.threads, 1, 1], stream=stream, use_pdl=True)

    @cute.kernel
    def kernel(self, mSummed: cute.Tensor, mWeight: cute.Tensor, mOut: cute.Tensor):
        """One row."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        sSquares = smem.allocate_tensor(Float32, cute.make_layout(c.warps), 16)
        weight = read_vector(mWeight, tid).load().to(Float32)
        cute.arch.griddepcontrol_launch_dependents()
        # Weights never change; the sum may still be written by the launch before.
        cute.arch.griddepcontrol_wait()
        value = read_vector(mSummed[row, None], tid).load().to(Float32)
        self._normalise(value, weight, sSquares, mOut[row, None])

    @cute.jit
    def _normalise(
        self,
        value: cute.TensorSSA,
        weight: cute.TensorSSA,
        sSquares: cute.Tensor,
        out: cute.Tensor,
    ):
        """Scale a row, of which each thread has a vector, and write it."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        square = (value * value).reduce(cute.ReductionOp.ADD, 0.0, 0)
        square = cute.arch.warp_reduction(square, operator.add)
        if lane == 0:
            sSquares[warp] = square
        cute.arch.sync_threads()
        # Every lane has a part of the sum, zero beyond the last warp.
        part = Float32(0.0)
        if lane < c.warps:
            part = sSquares[lane]
        total = cute.arch.warp_reduction(part, operator.add)
        scale = cute.math.rsqrt(total * (1.0 / c.width) + c.eps)
        rOut = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
        rOut.store((value * scale * weight).to(BFloat16))
        write_vector(rOut, out, tid)
