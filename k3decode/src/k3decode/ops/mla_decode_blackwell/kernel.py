# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of attention over the latent cache for Blackwell: one CTA per part and query block.

Operands are swapped: a tile's tokens are the rows of the scores, and the latent columns those of
the sums, so that products are full whatever the number of heads. The columns are the query rows of
a request, its heads times its tokens, which therefore read the cache once together.

One warp asks for cache rows by bulk tensor copies into a ring of units of 128 latent columns; one
multiplies; two bring the queries of a request; four make shares of scores, one lane of tensor
memory each. A unit of a tile is the left operand of both products: tokens by columns for scores,
transposed for sums. Cache rows behind a request's tokens are not asked for, whole boxes of them, or
overwritten with zeros before their latents are multiplied, and their scores are minus infinity.
"""

import math

import cuda.bindings.driver as cuda
import cutlass
import cutlass.utils.blackwell_helpers as blackwell
from cutlass import BFloat16, Float8E4M3FN, Float8E5M2, Float32, Int32, Int64, cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.memory import SmemAllocator

from k3decode.device.async_copy import COPY_BYTES
from k3decode.device.column_softmax import (
    agree_on_reference,
    find_highest,
    forget_row,
    make_shares,
    rescale_sums,
    write_sums,
    write_totals,
)
from k3decode.device.latent_barriers import LatentBarriers, start_barriers
from k3decode.device.latent_copies import bring_queries, bring_tiles
from k3decode.device.latent_products import multiply
from k3decode.device.row_io import WARP_SIZE
from k3decode.device.split_rows import end_of, row_of, split_rows, start_of, visible_in
from k3decode.device.tensor_memory import after_barrier, before_barrier, lanes_of_warp
from k3decode.ops.mla_decode_blackwell.config import MlaDecodeBlackwellConfig

__all__ = ["MlaDecodeBlackwellKernel"]

_MANY_ROWS = 1 << 20
_COPY_WARP, _PRODUCT_WARP, _ASK_WARP, _WEIGH_WARP = 0, 1, 2, 4
_WEIGH_WARPS = 4
_UNIT_COLUMNS = 128
# A token that no limit lets pass.
_NO_TOKEN = 1 << 30


class MlaDecodeBlackwellKernel:
    """Fixes formats and tile sizes at compile time."""

    def __init__(self, config: MlaDecodeBlackwellConfig) -> None:
        self.config = config

    @property
    def dtype(self):
        """Operands of the matrix products."""
        return BFloat16 if self.config.cache_format == "bf16" else Float8E4M3FN

    @property
    def fine_dtype(self):
        """Shares of the last term."""
        return BFloat16 if self.config.cache_format == "bf16" else Float8E5M2

    @cute.jit
    def __call__(
        self,
        query: cute.Pointer,
        cache: cute.Pointer,
        table: cute.Pointer,
        lengths: cute.Pointer,
        latents: cute.Pointer,
        lse: cute.Pointer,
        query_bytes: Int64,
        page_stride: Int64,
        table_stride: Int64,
        requests: Int32,
        heads: Int32,
        tokens_per_request: Int32,
        page_tokens: Int32,
        pages: Int32,
        parts: Int32,
        score_scale: Float32,
        value_scale: Float32,
        stream: cuda.CUstream,
    ):
        """Launch `parts` CTAs per block of query rows.

        `query_bytes` are between rows, `page_stride` columns between pages; `score_scale` makes
        exponents of two of products; `value_scale` makes latents of values.
        """
        c = self.config
        scores = blackwell.make_trivial_tiled_mma(
            self.dtype,
            self.dtype,
            OperandMajorMode.K,
            OperandMajorMode.K,
            Float32,
            tcgen05.CtaGroup.ONE,
            (c.tile_tokens, c.columns),
        )
        values, fine_values = (
            blackwell.make_trivial_tiled_mma(
                self.dtype,
                shares,
                OperandMajorMode.MN,
                OperandMajorMode.MN,
                Float32,
                tcgen05.CtaGroup.ONE,
                (_UNIT_COLUMNS, c.columns),
            )
            for shares in (self.dtype, self.fine_dtype)
        )
        mCache = cute.make_tensor(
            cute.recast_ptr(cache, dtype=self.dtype),
            cute.make_layout(
                (page_tokens, c.width, pages),
                stride=(c.width, 1, cute.assume(page_stride, divby=COPY_BYTES // c.element_bytes)),
            ),
        )
        latent_copy, gLatents = self._bulk_copy(mCache, c.span)
        shared_copy, gShared = self._bulk_copy(mCache, c.shared)
        query_rows = heads * tokens_per_request
        blocks = (query_rows + c.columns - 1) // c.columns
        self.kernel(
            scores,
            values,
            fine_values,
            latent_copy,
            gLatents,
            shared_copy,
            gShared,
            query.toint(),
            cute.make_tensor(
                table, cute.make_layout((_MANY_ROWS, _MANY_ROWS), stride=(table_stride, 1))
            ),
            cute.make_tensor(lengths, cute.make_layout(_MANY_ROWS)),
            cute.make_tensor(
                latents,
                cute.make_layout(
                    (_MANY_ROWS, query_rows, c.latent),
                    stride=(cute.assume(Int64(query_rows) * c.latent, divby=c.latent), c.latent, 1),
                ),
            ),
            cute.make_tensor(
                lse, cute.make_layout((_MANY_ROWS, query_rows), stride=(Int64(query_rows), 1))
            ),
            query_bytes,
            requests,
            heads,
            tokens_per_request,
            page_tokens,
            parts,
            score_scale,
            value_scale,
        ).launch(grid=[parts, blocks, 1], block=[c.threads, 1, 1], stream=stream, use_pdl=True)

    def _bulk_copy(self, mCache: cute.Tensor, columns: int):
        """Copy of 16 cache rows of some columns, at most 128 bytes, swizzled."""
        box = (self.config.box_tokens, columns, 1)
        layout = cute.tile_to_shape(self._swizzled(columns), box, order=(0, 1, 2))
        return cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), mCache, layout, box)

    def _swizzled(self, columns: int):
        """Eight rows of 64 or 128 bytes, the layout in which the matrix unit reads rows."""
        wide = columns * self.config.element_bytes == 2 * 64
        kind = tcgen05.SmemLayoutAtomKind.K_SW128 if wide else tcgen05.SmemLayoutAtomKind.K_SW64
        return tcgen05.make_smem_layout_atom(kind, self.dtype)

    def _operands(self, scores: cute.TiledMma, values: cute.TiledMma):
        """Layouts of the operands of both products in shared memory."""
        c = self.config
        rows, turned = (1, 2, 3), (2, 1, 3)
        wide, narrow = self._swizzled(c.span), self._swizzled(c.shared)
        kinds = tcgen05.SmemLayoutAtomKind
        turned_kind = kinds.MN_SW32 if c.cache_format == "bf16" else kinds.MN_INTER

        def tiled(atom, shape, slots: int, order):
            return tcgen05.tile_to_mma_shape(atom, cute.append(shape, slots), order=order)

        return {
            "keys": tiled(
                wide,
                scores.partition_shape_A((c.tile_tokens, _UNIT_COLUMNS)),
                c.latent_slots,
                rows,
            ),
            "shared": tiled(
                narrow, scores.partition_shape_A((c.tile_tokens, c.shared)), c.shared_slots, rows
            ),
            "query": tiled(
                wide, scores.partition_shape_B((c.columns, _UNIT_COLUMNS)), c.units, rows
            ),
            "query_shared": tiled(narrow, scores.partition_shape_B((c.columns, c.shared)), 1, rows),
            "values": tiled(
                tcgen05.make_smem_layout_atom(kinds.MN_SW128, self.dtype),
                values.partition_shape_A((_UNIT_COLUMNS, c.tile_tokens)),
                c.latent_slots,
                turned,
            ),
            "shares": tiled(
                tcgen05.make_smem_layout_atom(turned_kind, self.dtype),
                values.partition_shape_B((c.columns, c.tile_tokens)),
                c.terms,
                turned,
            ),
        }

    @cute.kernel
    def kernel(
        self,
        scores: cute.TiledMma,
        values: cute.TiledMma,
        fine_values: cute.TiledMma,
        latent_copy: cute.CopyAtom,
        gLatents: cute.Tensor,
        shared_copy: cute.CopyAtom,
        gShared: cute.Tensor,
        query: Int64,
        mTable: cute.Tensor,
        mLengths: cute.Tensor,
        mLatents: cute.Tensor,
        mLse: cute.Tensor,
        query_bytes: Int64,
        requests: Int32,
        heads: Int32,
        tokens_per_request: Int32,
        page_tokens: Int32,
        parts: Int32,
        score_scale: Float32,
        value_scale: Float32,
    ):
        """One part: all its requests, one after the other, every warp in its role."""
        c = self.config
        part, block, _ = cute.arch.block_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        smem = SmemAllocator()
        layouts = self._operands(scores, values)

        def operand(name: str) -> cute.Tensor:
            layout = layouts[name]
            return smem.allocate_tensor(self.dtype, layout.outer, 1024, layout.inner)

        sKeys, sShared, sQuery = operand("keys"), operand("shared"), operand("query")
        sQueryShared, sShares = operand("query_shared"), operand("shares")
        sValues = _same_bytes(sKeys, layouts["values"], self.dtype)
        sFineShares = _same_bytes(sShares, layouts["shares"], self.fine_dtype)
        exchange = cute.make_layout((_WEIGH_WARPS, c.columns), stride=(c.columns, 1))
        sHighest = smem.allocate_tensor(Float32, exchange, 16)
        sReference = smem.allocate_tensor(Float32, cute.make_layout(c.columns), 16)
        sScale = smem.allocate_tensor(Float32, cute.make_layout(c.columns), 16)
        sLater = smem.allocate_tensor(Int32, cute.make_layout(c.columns), 16)
        sMemory = smem.allocate_tensor(Int32, cute.make_layout(1), 16)
        bars = LatentBarriers(
            smem.allocate_array(Int64, LatentBarriers.count(c), byte_alignment=16), c
        )

        if warp == _PRODUCT_WARP:
            cute.arch.alloc_tmem(c.tensor_memory_columns, sMemory.iterator)
            cute.arch.relinquish_tmem_alloc_permit()
            start_barriers(c, bars)
        tid, _, _ = cute.arch.thread_idx()
        if tid < c.columns:
            # How many tokens of its request come after a query row's own.
            place = (block * c.columns + tid) // heads
            sLater[tid] = cutlass.max(tokens_per_request - 1 - place, 0)
        cute.arch.griddepcontrol_launch_dependents()
        before_barrier()
        cute.arch.sync_threads()
        after_barrier()
        cute.arch.griddepcontrol_wait()
        memory = sMemory[0]
        split = split_rows(mLengths, requests, Int32(1), c.tile_tokens, c.fewest_tiles, parts)
        first = part * split.quota
        last = cutlass.min(first + split.quota, split.tiles)

        if warp == _COPY_WARP:
            bring_tiles(
                c,
                latent_copy,
                gLatents,
                shared_copy,
                gShared,
                sKeys,
                sShared,
                bars,
                mTable,
                split,
                requests,
                first,
                last,
                page_tokens,
            )
        elif warp == _PRODUCT_WARP:
            sums = cute.recast_ptr(
                cute.arch.retrieve_tmem_ptr(Float32, 16, sMemory.iterator), dtype=Float32
            )
            multiply(
                c,
                scores,
                (values, fine_values),
                sKeys,
                sShared,
                sQuery,
                sQueryShared,
                sValues,
                (sShares, sFineShares),
                sums,
                bars,
                split,
                requests,
                first,
                last,
            )
        elif warp < _WEIGH_WARP:
            bring_queries(
                c,
                tid - _ASK_WARP * WARP_SIZE,
                query,
                query_bytes,
                sQuery,
                sQueryShared,
                bars,
                split,
                requests,
                first,
                last,
                block,
                heads,
                tokens_per_request,
            )
        else:
            self._weigh(
                sKeys,
                sShares,
                sHighest,
                sReference,
                sScale,
                sLater,
                memory,
                bars,
                split,
                requests,
                first,
                last,
                block * c.columns,
                heads * tokens_per_request,
                mLatents,
                mLse,
                part,
                score_scale,
                value_scale,
            )
        before_barrier()
        cute.arch.sync_threads()
        if warp == _PRODUCT_WARP:
            after_barrier()
            cute.arch.dealloc_tmem(
                cute.arch.retrieve_tmem_ptr(Float32, 16, sMemory.iterator), c.tensor_memory_columns
            )

    @cute.jit
    def _weigh(
        self,
        sKeys: cute.Tensor,
        sShares: cute.Tensor,
        sHighest: cute.Tensor,
        sReference: cute.Tensor,
        sScale: cute.Tensor,
        sLater: cute.Tensor,
        memory: Int32,
        bars: cutlass.Constexpr,
        split,
        requests: Int32,
        first: Int32,
        last: Int32,
        first_column: Int32,
        query_rows: Int32,
        mLatents: cute.Tensor,
        mLse: cute.Tensor,
        part: Int32,
        score_scale: Float32,
        value_scale: Float32,
    ):
        """Shares of every tile, and the partial of every request."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        thread = tid - _WEIGH_WARP * WARP_SIZE
        sums = lanes_of_warp(memory, thread // WARP_SIZE)
        token = self._token_of(thread)
        shares, keys = sShares.iterator.toint(), sKeys.iterator.toint()
        rTotals = cute.make_rmem_tensor((c.columns,), Float32)
        weighed = Int32(0)
        slot = Int32(0)
        row = row_of(split, first)
        tile = first
        while row < requests:
            stop = cutlass.min(end_of(split, row), last)
            left = visible_in(split, row) - (tile - start_of(split, row)) * c.tile_tokens
            rTotals.fill(0.0)
            if thread < c.columns:
                sReference[thread] = Float32(-math.inf)
            for at in cutlass.range(tile, stop):
                score_set = weighed % c.score_sets
                scores = sums + (c.units + score_set) * c.columns
                cute.arch.mbarrier_wait(bars.score_full + score_set, weighed // c.score_sets % 2)
                after_barrier()
                find_highest(c, scores, sHighest, sLater, token, left, score_scale)
                grown = agree_on_reference(c, thread, sHighest, sReference, sScale)
                # The tile before is summed, and its shares are no longer needed.
                if weighed > 0:
                    cute.arch.mbarrier_wait(bars.value_done, (weighed - 1) % 2)
                    after_barrier()
                if grown > 0:
                    for i in cutlass.range_constexpr(c.columns):
                        rTotals[i] = rTotals[i] * sScale[i]
                    if at > tile:
                        rescale_sums(c, sums, sScale)
                make_shares(
                    c, scores, shares, sReference, sLater, rTotals, token, left, score_scale
                )
                if token >= left and token < c.tile_tokens:
                    forget_row(c, keys, token, slot)
                slot = slot + c.units
                slot = slot - c.latent_slots if slot >= c.latent_slots else slot
                cute.arch.fence_view_async_shared()
                before_barrier()
                cute.arch.mbarrier_arrive(bars.share_full)
                weighed = weighed + 1
                left = left - c.tile_tokens
            write_totals(
                c,
                thread,
                sHighest,
                sReference,
                sScale,
                rTotals,
                mLse[part + row, None],
                query_rows,
                first_column,
                value_scale,
            )
            cute.arch.mbarrier_wait(bars.value_done, (weighed - 1) % 2)
            after_barrier()
            write_sums(
                c,
                thread,
                sums,
                sScale,
                mLatents[part + row, None, None],
                query_rows,
                first_column,
            )
            tile = stop
            row = row_of(split, stop) if stop < last else requests

    @cute.jit
    def _token_of(self, thread: Int32):
        """Token of a tile whose scores this lane of tensor memory has; none beyond the limits.

        With 64 tokens a warp's lanes have 16 of them, and its other 16 lanes none.
        """
        per_warp = self.config.tile_tokens // _WEIGH_WARPS
        lane = thread % WARP_SIZE
        token = thread // WARP_SIZE * per_warp + lane
        return token if lane < per_warp else Int32(_NO_TOKEN)


def _same_bytes(sTensor: cute.Tensor, layout: cute.ComposedLayout, dtype) -> cute.Tensor:
    """Another view of an operand."""
    pointer = cute.recast_ptr(sTensor.iterator, layout.inner, dtype=dtype)
    return cute.make_tensor(pointer, layout.outer)
