# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of AttnRes: one cluster per row, one 16-byte load per thread and source.

Seven CTAs of 128 threads share a row of 7168 columns. A thread holds its eight columns of every
source in registers, so each source is read from memory once and nothing spills. Two sums cross the
CTAs: scores and squares of the sources, then the square of the mixture. Both are written into every
CTA's shared memory, each value by one thread, and added up there in the same order everywhere.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.cluster import store_to_peer
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
        c = self.config
        width = c.hidden_size
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
        ).launch(
            grid=[c.ctas, rows, 1],
            block=[c.threads, 1, 1],
            cluster=[c.ctas, 1, 1],
            stream=stream,
            use_pdl=True,
        )

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
        """One part of one row: read all sources, update the prefix, score, mix, normalise."""
        config = self.config
        part, row, _ = cute.arch.block_idx()
        memory, vector, rDirection, rNorm = self._begin(mDirection, mOutputNorm, part)
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
        rSources = [read_vector(mBlocks[row, s, None], vector) for s in range(config.blocks)]
        if cutlass.const_expr(config.reset):
            rPrefix = read_vector(mPending[row, None], vector)
        else:
            rPrefix = read_vector(mPrefix[row, None], vector)
            if cutlass.const_expr(config.has_pending):
                rPending = read_vector(mPending[row, None], vector)
                total = rPrefix.load().to(Float32) + rPending.load().to(Float32)
                rPrefix.store(total.to(BFloat16))
        self._keep(rPrefix, mPrefix, mBlocks, row, vector)
        rSources.append(rPrefix)
        self._mix(rSources, rDirection, rNorm, memory, mOut, row, part)

    @cute.jit
    def _begin(self, mDirection: cute.Tensor, mOutputNorm: cute.Tensor, part: Int32):
        """Shared memory, which vector of a row is this thread's, and its weights.

        Weights never change; everything else may still be written by the launch before.
        """
        config = self.config
        # Peers must have started before anything is stored into their shared memory.
        cute.arch.cluster_arrive_relaxed()
        warps = config.threads // WARP_SIZE
        sources = config.sources
        smem = SmemAllocator()
        sSums = smem.allocate_tensor(Float32, cute.make_layout((2 * sources, warps)), 16)
        sParts = smem.allocate_tensor(Float32, cute.make_layout((2 * sources, config.ctas)), 16)
        sSquares = smem.allocate_tensor(Float32, cute.make_layout(config.ctas * warps), 16)
        vector = part * config.threads + cute.arch.thread_idx()[0]
        rDirection = read_vector(mDirection, vector)
        # What no variant without a norm uses.
        rNorm = rDirection
        if cutlass.const_expr(config.output_norm):
            rNorm = read_vector(mOutputNorm, vector)
        return (sSums, sParts, sSquares), vector, rDirection, rNorm

    @cute.jit
    def _keep(
        self,
        rPrefix: cute.Tensor,
        mPrefix: cute.Tensor,
        mBlocks: cute.Tensor,
        row: Int32,
        vector: Int32,
    ):
        """Write the prefix where it was updated, and to a block of the store where one begins."""
        config = self.config
        if cutlass.const_expr(config.reset or config.has_pending):
            write_vector(rPrefix, mPrefix[row, None], vector)
        if cutlass.const_expr(config.write_block is not None):
            write_vector(rPrefix, mBlocks[row, config.write_block, None], vector)

    @cute.jit
    def _mix(
        self,
        rSources: list,
        rDirection: cute.Tensor,
        rNorm: cute.Tensor,
        memory: tuple,
        mOut: cute.Tensor,
        row: Int32,
        part: Int32,
    ):
        """Score the sources, of which each thread has a vector, mix and normalise them."""
        config = self.config
        sSums, sParts, sSquares = memory
        tid, _, _ = cute.arch.thread_idx()
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        warps = config.threads // WARP_SIZE
        sources = config.sources
        vector = part * config.threads + tid
        direction = rDirection.load()
        for s in cutlass.range_constexpr(sources):
            x = rSources[s].load().to(Float32)
            dot = (x * direction).reduce(cute.ReductionOp.ADD, 0.0, 0)
            square = (x * x).reduce(cute.ReductionOp.ADD, 0.0, 0)
            dot = cute.arch.warp_reduction(dot, operator.add)
            square = cute.arch.warp_reduction(square, operator.add)
            if lane == 0:
                sSums[s, warp] = dot
                sSums[sources + s, warp] = square
        cute.arch.sync_threads()
        cute.arch.cluster_wait()
        self._share_sums(sSums, sParts, part, tid)
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()

        share = self._share_of_source(sParts, lane)
        mixture = rSources[0].load().to(Float32) * cute.arch.shuffle_sync(share, 0)
        for s in cutlass.range_constexpr(1, sources):
            x = rSources[s].load().to(Float32)
            mixture = mixture + x * cute.arch.shuffle_sync(share, s)

        if cutlass.const_expr(config.output_norm):
            square = (mixture * mixture).reduce(cute.ReductionOp.ADD, 0.0, 0)
            square = cute.arch.warp_reduction(square, operator.add)
            if lane < config.ctas:
                store_to_peer((sSquares.iterator + part * warps + warp).toint(), lane, square)
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
            square = Float32(0.0)
            if lane < config.ctas * warps:
                square = sSquares[lane]
            square = cute.arch.warp_reduction(square, operator.add)
            scale = cute.math.rsqrt(square * (1.0 / config.hidden_size) + config.eps)
            mixture = mixture * scale * rNorm.load().to(Float32)
        rOut = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
        rOut.store(mixture.to(BFloat16))
        write_vector(rOut, mOut[row, None], vector)

    @cute.jit
    def _share_sums(self, sSums: cute.Tensor, sParts: cute.Tensor, part: Int32, tid: Int32):
        """Add up this CTA's warps and store each sum into every CTA of the cluster."""
        config = self.config
        values = 2 * config.sources
        for first in cutlass.range_constexpr(0, values * config.ctas, config.threads):
            index = first + tid
            if index < values * config.ctas:
                value = index % values
                total = sSums[value, 0]
                for w in cutlass.range_constexpr(1, config.threads // WARP_SIZE):
                    total = total + sSums[value, w]
                place = (sParts.iterator + part * values + value).toint()
                store_to_peer(place, index // values, total)

    @cute.jit
    def _share_of_source(self, sParts: cute.Tensor, lane: Int32) -> Float32:
        """One source's share of the mixture per lane; zero in lanes without a source."""
        config = self.config
        sources = config.sources
        lowest = Float32(-float("inf"))
        score = lowest
        if lane < sources:
            dot = sParts[lane, 0]
            square = sParts[sources + lane, 0]
            for p in cutlass.range_constexpr(1, config.ctas):
                dot = dot + sParts[lane, p]
                square = square + sParts[sources + lane, p]
            mean = square * (1.0 / config.hidden_size)
            score = dot * cute.math.rsqrt(mean + config.eps)
        highest = cute.arch.warp_reduction(score, cute.arch.fmax)
        share = Float32(0.0)
        if lane < sources:
            share = cute.math.exp(score - highest)
        return share / cute.arch.warp_reduction(share, operator.add)
