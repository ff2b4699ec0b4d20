# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
# ruff: noqa: PLR5501
"""Device code of a projection of many tokens: tensor copies, warpgroup products, clusters.

With many tokens the activations that every CTA needs weigh as much as the weights. Here the CTAs of
a cluster, each with weight rows of its own, bring a share of the activations for all of them. One
warp copies, four multiply: weight rows are the rows of the product, tokens its columns.

A stage is filled when its weights and all shares of activations have arrived, and is empty when the
multiplying warps of all CTAs of the cluster have left it.
"""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.memory import SmemAllocator

from k3decode.device.row_io import VECTOR_WIDTH, WARP_SIZE
from k3decode.ops.projection.kernel import QUAD, load_quad, write_pair, write_plain
from k3decode.ops.projection_hopper.config import TILE_ROWS, UNIT_COLUMNS, WideConfig

__all__ = ["WideProjectionKernel"]

_MANY = 1 << 20
_PRODUCT_WARPS = 4
_PRODUCT_COLUMNS = 16


class WideProjectionKernel:
    """Fixes room for tokens and cluster at compile time; shapes stay free."""

    def __init__(self, config: WideConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        weight: cute.Pointer,
        activation: cute.Pointer,
        out_fp32: cute.Pointer,
        out_bf16: cute.Pointer,
        weight_stride: Int64,
        activation_stride: Int64,
        fp32_stride: Int64,
        bf16_stride: Int64,
        tokens: Int32,
        rows: Int32,
        columns: Int32,
        fp32_rows: Int32,
        plain_rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch; arguments as `ProjectionKernel`'s."""
        c = self.config
        mWeight = _matrix(weight, rows, columns, weight_stride, VECTOR_WIDTH)
        mActivation = _matrix(activation, tokens, columns, activation_stride, VECTOR_WIDTH)
        product = cute.make_tiled_mma(
            warpgroup.MmaF16BF16Op(
                BFloat16,
                Float32,
                (TILE_ROWS, c.tokens, _PRODUCT_COLUMNS),
                warpgroup.OperandSource.SMEM,
                OperandMajorMode.K,
                OperandMajorMode.K,
            ),
            (1, 1, 1),
        )
        weight_layout = _staged(TILE_ROWS, c.stages)
        activation_layout = _staged(c.tokens, c.stages)
        copy_weight, mWeight = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SOp(),
            mWeight,
            cute.slice_(weight_layout, (None, None, 0)),
            (TILE_ROWS, UNIT_COLUMNS),
        )
        copy_activation, mActivation = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SMulticastOp(),
            mActivation,
            cute.slice_(activation_layout, (None, None, 0)),
            (c.tokens, UNIT_COLUMNS),
            num_multicast=c.cluster,
        )
        self.kernel(
            copy_weight,
            mWeight,
            copy_activation,
            mActivation,
            product,
            weight_layout,
            activation_layout,
            _matrix(out_fp32, _MANY, _MANY, fp32_stride, QUAD),
            _matrix(out_bf16, _MANY, _MANY, bf16_stride, VECTOR_WIDTH),
            tokens,
            columns // UNIT_COLUMNS,
            (rows, fp32_rows, plain_rows),
        ).launch(
            grid=[c.cluster, cute.ceil_div(rows, TILE_ROWS * c.cluster), 1],
            block=[(_PRODUCT_WARPS + 1) * WARP_SIZE, 1, 1],
            cluster=[c.cluster, 1, 1],
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        copy_weight: cute.CopyAtom,
        mWeight: cute.Tensor,
        copy_activation: cute.CopyAtom,
        mActivation: cute.Tensor,
        product: cute.TiledMma,
        weight_layout: cute.ComposedLayout,
        activation_layout: cute.ComposedLayout,
        mOutFp32: cute.Tensor,
        mOutBf16: cute.Tensor,
        tokens: Int32,
        units: Int32,
        limits: tuple,
    ):
        """One tile of weight rows, all tokens, all columns."""
        c = self.config
        rank, block, _ = cute.arch.block_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        tile = block * c.cluster + rank
        smem = SmemAllocator()
        filled = smem.allocate_array(Int64, c.stages)
        empty = smem.allocate_array(Int64, c.stages)
        sWeight = smem.allocate_tensor(
            BFloat16, weight_layout.outer, 1024, swizzle=weight_layout.inner
        )
        sActivation = smem.allocate_tensor(
            BFloat16, activation_layout.outer, 1024, swizzle=activation_layout.inner
        )
        sSums = cute.make_tensor(
            cute.recast_ptr(sWeight.iterator, dtype=Float32, swizzle_=None),
            cute.make_layout((c.output_pitch, c.tokens), stride=(1, c.output_pitch)),
        )
        if cute.arch.thread_idx()[0] == 0:
            for i in cutlass.range_constexpr(c.stages):
                cute.arch.mbarrier_init(filled + i, 1)
                cute.arch.mbarrier_init(empty + i, _PRODUCT_WARPS * c.cluster)
            cute.arch.mbarrier_init_fence()
        # Peers store into this CTA's stages and arrive at its barriers.
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
        if warp == _PRODUCT_WARPS:
            self._copy(
                (copy_weight, mWeight, sWeight),
                (copy_activation, mActivation, sActivation),
                filled,
                empty,
                rank,
                tile,
                units,
            )
        if warp < _PRODUCT_WARPS:
            rSums = self._multiply(product, sWeight, sActivation, filled, empty, units)
            self._hand_over(product, rSums, sSums)
            cute.arch.barrier(barrier_id=1, number_of_threads=_PRODUCT_WARPS * WARP_SIZE)
            self._write(sSums, mOutFp32, mOutBf16, tile, tokens, limits)
        # Nobody may leave while a peer still arrives at its barriers.
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()

    @cute.jit
    def _copy(
        self,
        weight: tuple,
        activation: tuple,
        filled: cute.Pointer,
        empty: cute.Pointer,
        rank: Int32,
        tile: Int32,
        units: Int32,
    ):
        """One warp: fill stages, first with the weights that need not wait."""
        c = self.config
        copy_weight, mWeight, sWeight = weight
        copy_activation, mActivation, sActivation = activation
        gWeight = cute.local_tile(mWeight, (TILE_ROWS, UNIT_COLUMNS), (tile, None))
        gActivation = cute.local_tile(mActivation, (c.tokens, UNIT_COLUMNS), (0, None))
        tWs, tWg = cpasync.tma_partition(
            copy_weight,
            0,
            cute.make_layout(1),
            cute.group_modes(sWeight, 0, 2),
            cute.group_modes(gWeight, 0, 2),
        )
        tAs, tAg = cpasync.tma_partition(
            copy_activation,
            rank,
            cute.make_layout(c.cluster),
            cute.group_modes(sActivation, 0, 2),
            cute.group_modes(gActivation, 0, 2),
        )
        everyone = cutlass.Int16((1 << c.cluster) - 1)
        first = cutlass.min(units, c.stages)
        for unit in cutlass.range(first):
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(filled + unit, c.stage_bytes)
            cute.copy(copy_weight, tWg[None, unit], tWs[None, unit], tma_bar_ptr=filled + unit)
        cute.arch.griddepcontrol_launch_dependents()
        # Weights never change; activations may still be written by the launch before.
        cute.arch.griddepcontrol_wait()
        for unit in cutlass.range(first):
            cute.copy(
                copy_activation,
                tAg[None, unit],
                tAs[None, unit],
                tma_bar_ptr=filled + unit,
                mcast_mask=everyone,
            )
        stage, turn = Int32(0), Int32(0)
        for unit in cutlass.range(first, units):
            cute.arch.mbarrier_wait(empty + stage, turn)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(filled + stage, c.stage_bytes)
            cute.copy(copy_weight, tWg[None, unit], tWs[None, stage], tma_bar_ptr=filled + stage)
            cute.copy(
                copy_activation,
                tAg[None, unit],
                tAs[None, stage],
                tma_bar_ptr=filled + stage,
                mcast_mask=everyone,
            )
            stage += 1
            if stage == c.stages:
                stage = Int32(0)
                turn = turn ^ 1

    @cute.jit
    def _multiply(
        self,
        product: cute.TiledMma,
        sWeight: cute.Tensor,
        sActivation: cute.Tensor,
        filled: cute.Pointer,
        empty: cute.Pointer,
        units: Int32,
    ):
        """Four warps: all units; returns the sums of this thread.

        The matrix unit cuts off what a sum in it cannot hold, always towards zero, so chains of
        products are kept short, and chains are added with rounding.
        """
        c = self.config
        part = product.get_slice(0)
        rWeight = product.make_fragment_A(part.partition_A(sWeight))
        rActivation = product.make_fragment_B(part.partition_B(sActivation))
        shape = product.partition_shape_C((TILE_ROWS, c.tokens))
        rChain = cute.make_rmem_tensor(shape, Float32)
        rSums = cute.make_rmem_tensor(shape, Float32)
        rSums.fill(0.0)
        product.set(warpgroup.Field.ACCUMULATE, True)
        lane = cute.arch.lane_idx()
        stage, turn, before = Int32(0), Int32(0), Int32(0)
        for first in cutlass.range(0, units, c.chain_units, unroll=1):
            rChain.fill(0.0)
            for unit in cutlass.range(cutlass.min(units - first, c.chain_units), unroll=1):
                cute.arch.mbarrier_wait(filled + stage, turn)
                warpgroup.fence()
                for step in cutlass.range_constexpr(UNIT_COLUMNS // _PRODUCT_COLUMNS):
                    cute.gemm(
                        product,
                        rChain,
                        rWeight[None, None, step, stage],
                        rActivation[None, None, step, stage],
                        rChain,
                    )
                warpgroup.commit_group()
                # The products of the unit before have ended.
                warpgroup.wait_group(1)
                if unit > 0 and lane < c.cluster:
                    cute.arch.mbarrier_arrive(empty + before, lane)
                before = stage
                stage += 1
                if stage == c.stages:
                    stage = Int32(0)
                    turn = turn ^ 1
            warpgroup.wait_group(0)
            if lane < c.cluster:
                cute.arch.mbarrier_arrive(empty + before, lane)
            rSums.store(rSums.load() + rChain.load())
        return rSums

    @cute.jit
    def _hand_over(self, product: cute.TiledMma, rSums: cute.Tensor, sSums: cute.Tensor):
        """Put the sums where threads find neighbouring rows of one token.

        The stages below were used by all warps when each has passed the barrier.
        """
        c = self.config
        cute.arch.barrier(barrier_id=1, number_of_threads=_PRODUCT_WARPS * WARP_SIZE)
        tid, _, _ = cute.arch.thread_idx()
        places = product.get_slice(tid).partition_C(
            cute.make_identity_tensor((TILE_ROWS, c.tokens))
        )
        for i in cutlass.range_constexpr(cute.size(rSums)):
            row, token = places[i]
            sSums[row, token] = rSums[i]

    @cute.jit
    def _write(
        self,
        sSums: cute.Tensor,
        mOutFp32: cute.Tensor,
        mOutBf16: cute.Tensor,
        tile: Int32,
        tokens: Int32,
        limits: tuple,
    ):
        """Round and store four neighbouring outputs at a time."""
        c = self.config
        rows, fp32_rows, plain_rows = limits
        tid, _, _ = cute.arch.thread_idx()
        row_quads = TILE_ROWS // QUAD
        for i in cutlass.range(tid, tokens * row_quads, _PRODUCT_WARPS * WARP_SIZE):
            token, quad = i // row_quads, i % row_quads
            total = load_quad(sSums[None, token], quad)
            row = tile * TILE_ROWS + quad * QUAD
            if row < rows:
                gFp32, gBf16 = mOutFp32[token, None], mOutBf16[token, None]
                if cutlass.const_expr(c.situ is None):
                    write_plain(total, gFp32, gBf16, row, fp32_rows)
                else:
                    if row < plain_rows:
                        write_plain(total, gFp32, gBf16, row, fp32_rows)
                    else:
                        write_pair(total, gBf16, row, fp32_rows, plain_rows, c.situ)


def _matrix(
    pointer: cute.Pointer, rows: Int32, columns: Int32, stride: Int64, multiple: int
) -> cute.Tensor:
    layout = cute.make_layout((rows, columns), stride=(cute.assume(stride, divby=multiple), 1))
    return cute.make_tensor(pointer, layout)


def _staged(rows: int, stages: int) -> cute.ComposedLayout:
    """Swizzled tiles of a number of rows and 64 columns."""
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, BFloat16)
    return cute.tile_to_shape(atom, (rows, UNIT_COLUMNS, stages), order=(0, 1, 2))
