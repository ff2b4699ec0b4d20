# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of AttnRes: one CTA per row, one 16-byte load per thread and source.

A row has 7168 columns, so 896 threads hold every source of a row in registers and each source is
read from memory once. Blocks are summed into a mixture and normalised without leaving the SM.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.row_io import WARP_SIZE, read_vector, row_tensor, write_vector
from k3decode.ops.attn_res.config import VECTOR_WIDTH, AttnResConfig

__all__ = ["AttnResKernel"]


class AttnResKernel:
    """Fixes at compile time which sources there are and what is written back."""

    def __init__(self, config: AttnResConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        prefix: cute.Pointer,
        pending: cute.Pointer,
        blocks: cute.Pointer,
        direction: cute.Pointer,
        output_norm: cute.Pointer,
        out: cute.Pointer,
        prefix_stride: Int64,
        pending_stride: Int64,
        block_row_stride: Int64,
        block_stride: Int64,
        out_stride: Int64,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` rows; strides in elements, multiples of the vector width."""
        width = self.config.hidden_size
        self.kernel(
            row_tensor(prefix, width, prefix_stride),
            row_tensor(pending, width, pending_stride),
            cute.make_tensor(
                blocks,
                cute.make_layout(
                    (1 << 20, 1 << 8, width),
                    stride=(
                        cute.assume(block_row_stride, divby=VECTOR_WIDTH),
                        cute.assume(block_stride, divby=VECTOR_WIDTH),
                        1,
                    ),
                ),
            ),
            cute.make_tensor(direction, cute.make_layout(width)),
            cute.make_tensor(output_norm, cute.make_layout(width)),
            row_tensor(out, width, out_stride),
        ).launch(grid=[rows, 1, 1], block=[self.config.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(
        self,
        mPrefix: cute.Tensor,
        mPending: cute.Tensor,
        mBlocks: cute.Tensor,
        mDirection: cute.Tensor,
        mOutputNorm: cute.Tensor,
        mOut: cute.Tensor,
    ):
        """One row: read all sources, update the prefix, score, mix, normalise."""
        config = self.config
        tid, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        lane = cute.arch.lane_idx()
        warp = cute.arch.warp_idx()
        warps = config.threads // WARP_SIZE
        sources = config.blocks + 1
        smem = SmemAllocator()
        sSums = smem.allocate_tensor(Float32, cute.make_layout((2 * sources + 1, WARP_SIZE)), 16)

        rSources = [read_vector(mBlocks[row, s, None], tid) for s in range(config.blocks)]
        if cutlass.const_expr(config.reset):
            rPrefix = read_vector(mPending[row, None], tid)
        else:
            rPrefix = read_vector(mPrefix[row, None], tid)
            if cutlass.const_expr(config.has_pending):
                rPending = read_vector(mPending[row, None], tid)
                total = rPrefix.load().to(Float32) + rPending.load().to(Float32)
                rPrefix.store(total.to(BFloat16))
        if cutlass.const_expr(config.reset or config.has_pending):
            write_vector(rPrefix, mPrefix[row, None], tid)
        if cutlass.const_expr(config.write_block is not None):
            write_vector(rPrefix, mBlocks[row, config.write_block, None], tid)
        rSources.append(rPrefix)

        direction = read_vector(mDirection, tid).load()
        for s in cutlass.range_constexpr(sources):
            x = rSources[s].load().to(Float32)
            dot = (x * direction).reduce(cute.ReductionOp.ADD, 0.0, 0)
            square = (x * x).reduce(cute.ReductionOp.ADD, 0.0, 0)
            dot = cute.arch.warp_reduction(dot, operator.add)
            square = cute.arch.warp_reduction(square, operator.add)
            if lane == 0:
                sSums[2 * s, warp] = dot
                sSums[2 * s + 1, warp] = square
        cute.arch.sync_threads()

        scores = []
        for s in cutlass.range_constexpr(sources):
            dot = Float32(0.0)
            square = Float32(0.0)
            if lane < warps:
                dot = sSums[2 * s, lane]
                square = sSums[2 * s + 1, lane]
            dot = cute.arch.warp_reduction(dot, operator.add)
            square = cute.arch.warp_reduction(square, operator.add)
            mean = square * (1.0 / config.hidden_size)
            scores.append(dot * cute.math.rsqrt(mean + config.eps))
        highest = scores[0]
        for s in cutlass.range_constexpr(1, sources):
            highest = cute.arch.fmax(highest, scores[s])
        shares = []
        total = Float32(0.0)
        for s in cutlass.range_constexpr(sources):
            share = cute.math.exp(scores[s] - highest)
            shares.append(share)
            total = total + share
        inverse = 1.0 / total
        mixture = rSources[0].load().to(Float32) * (shares[0] * inverse)
        for s in cutlass.range_constexpr(1, sources):
            mixture = mixture + rSources[s].load().to(Float32) * (shares[s] * inverse)

        if cutlass.const_expr(config.output_norm):
            square = (mixture * mixture).reduce(cute.ReductionOp.ADD, 0.0, 0)
            square = cute.arch.warp_reduction(square, operator.add)
            if lane == 0:
                sSums[2 * sources, warp] = square
            cute.arch.sync_threads()
            square = Float32(0.0)
            if lane < warps:
                square = sSums[2 * sources, lane]
            square = cute.arch.warp_reduction(square, operator.add)
            scale = cute.math.rsqrt(square * (1.0 / config.hidden_size) + config.eps)
            weight = read_vector(mOutputNorm, tid).load().to(Float32)
            mixture = mixture * scale * weight
        rOut = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
        rOut.store(mixture.to(BFloat16))
        write_vector(rOut, mOut[row, None], tid)
