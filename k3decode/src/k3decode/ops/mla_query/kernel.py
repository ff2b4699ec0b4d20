# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code that absorbs the key projection: one CTA per head, latent columns and 16 rows.

The slice of the projection and the rows are on their way together. One more CTA per head and 16
rows passes on the columns that are not projected.
"""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.async_copy import COPY_BYTES, request_copy
from k3decode.device.e4m3 import pack_e4m3
from k3decode.device.row_io import VECTOR_WIDTH, WARP_SIZE, read_vector, write_vector
from k3decode.device.warp_matrix import (
    PRODUCT_K,
    PRODUCT_M,
    PRODUCT_N,
    load_matrices,
    pack_pair,
    product,
)
from k3decode.ops.mla_query.config import MlaQueryConfig

__all__ = ["MlaQueryKernel"]

_MANY_ROWS = 1 << 20
_QUAD = 4
_MATRIX_ROWS = 8
_BF16_BYTES = 2
_WORD_BYTES = 4


class MlaQueryKernel:
    """Fixes widths and the format of the result at compile time."""

    def __init__(self, config: MlaQueryConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        query: cute.Pointer,
        key_up: cute.Pointer,
        absorbed: cute.Pointer,
        query_stride: Int64,
        head_stride: Int64,
        absorbed_stride: Int64,
        rows: Int32,
        heads: Int32,
        query_scale: Float32,
        stream: cuda.CUstream,
    ):
        """Launch over all heads; strides in elements, of rows and of the projection's heads."""
        c = self.config
        row_words = c.width * c.element_bytes // _WORD_BYTES
        self.kernel(
            cute.make_tensor(
                query,
                cute.make_layout(
                    (_MANY_ROWS, heads, c.head_width),
                    stride=(cute.assume(query_stride, divby=VECTOR_WIDTH), c.head_width, 1),
                ),
            ),
            key_up.toint(),
            cute.make_tensor(
                cute.recast_ptr(absorbed, dtype=Int32),
                cute.make_layout(
                    (_MANY_ROWS, heads, row_words),
                    stride=(
                        cute.assume(absorbed_stride * c.element_bytes // _WORD_BYTES, divby=_QUAD),
                        row_words,
                        1,
                    ),
                ),
            ),
            head_stride * _BF16_BYTES,
            rows,
            query_scale,
        ).launch(
            grid=[c.column_blocks + 1, heads, (rows + PRODUCT_M - 1) // PRODUCT_M],
            block=[c.threads, 1, 1],
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        mQuery: cute.Tensor,
        key_up: Int64,
        mAbsorbed: cute.Tensor,
        head_bytes: Int64,
        rows: Int32,
        query_scale: Float32,
    ):
        """One slice of one head's columns, or the columns that are passed on; sixteen rows."""
        c = self.config
        slice_index, head, row_block = cute.arch.block_idx()
        smem = SmemAllocator()
        sSlice = smem.allocate_tensor(cutlass.Uint8, cute.make_layout(c.nope * c.pitch_bytes), 128)
        cute.arch.griddepcontrol_launch_dependents()
        if slice_index < c.column_blocks:
            self._project(
                mQuery,
                key_up,
                mAbsorbed,
                sSlice,
                head_bytes,
                rows,
                query_scale,
                slice_index,
                head,
                row_block,
            )
        else:
            self._pass_on(mQuery, mAbsorbed, rows, query_scale, head, row_block)

    @cute.jit
    def _project(
        self,
        mQuery: cute.Tensor,
        key_up: Int64,
        mAbsorbed: cute.Tensor,
        sSlice: cute.Tensor,
        head_bytes: Int64,
        rows: Int32,
        query_scale: Float32,
        slice_index: Int32,
        head: Int32,
        row_block: Int32,
    ):
        """Multiply sixteen rows with a slice of the projection."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        lane = cute.arch.lane_idx()
        warp = cute.arch.warp_idx()
        base = sSlice.iterator.toint()
        target = base + (tid // c.warps) * c.pitch_bytes + (tid % c.warps) * COPY_BYTES
        place = (tid // c.warps) * (c.latent * _BF16_BYTES) + (tid % c.warps) * COPY_BYTES
        place = place + slice_index * (c.columns * _BF16_BYTES)
        source = key_up + Int64(head) * head_bytes + Int64(place)
        for i in cutlass.range_constexpr(c.nope // WARP_SIZE):
            offset = (i * WARP_SIZE * c.pitch_bytes, i * WARP_SIZE * c.latent * _BF16_BYTES)
            request_copy(target, source, Int32(COPY_BYTES), offset)
        cute.arch.cp_async_commit_group()
        # The projection never changes; queries may still be written by the launch before.
        cute.arch.griddepcontrol_wait()
        first = row_block * PRODUCT_M + lane // _QUAD
        lefts = []
        for step in cutlass.range_constexpr(c.nope // PRODUCT_K):
            lefts.append(self._left(mQuery, first, rows, head, step))
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()
        sums = [Float32(0.0)] * 4
        for i in cutlass.range_constexpr(c.nope // WARP_SIZE):
            loaded = load_matrices(
                base + lane * c.pitch_bytes + warp * (PRODUCT_N * _BF16_BYTES),
                i * WARP_SIZE * c.pitch_bytes,
                transposed=True,
            )
            sums = list(product(sums, lefts[2 * i], loaded[:2], form="bf16"))
            sums = list(product(sums, lefts[2 * i + 1], loaded[2:], form="bf16"))
        column = slice_index * c.columns + warp * PRODUCT_N
        for upper in cutlass.range_constexpr(2):
            self._write(
                mAbsorbed,
                sums[2 * upper],
                sums[2 * upper + 1],
                first + upper * _MATRIX_ROWS,
                rows,
                head,
                column,
                query_scale,
            )

    @cute.jit
    def _left(self, mQuery: cute.Tensor, first: Int32, rows: Int32, head: Int32, step: int):
        """Left operand of one product: rows first and first + 8; rows that are none give zeros."""
        words = []
        for half in cutlass.range_constexpr(2):
            for upper in cutlass.range_constexpr(2):
                row = first + upper * _MATRIX_ROWS
                word = Int32(0)
                if row < rows:
                    gHead = cute.recast_tensor(mQuery[row, head, None], Int32)
                    at = step * (PRODUCT_K // 2) + half * _QUAD + cute.arch.lane_idx() % _QUAD
                    word = gHead[at]
                words.append(word)
        return tuple(words)

    @cute.jit
    def _write(
        self,
        mAbsorbed: cute.Tensor,
        even: Float32,
        odd: Float32,
        row: Int32,
        rows: Int32,
        head: Int32,
        column: Int32,
        query_scale: Float32,
    ):
        """Write two neighbouring columns of a row; with E4M3 every other lane writes four."""
        lane = cute.arch.lane_idx()
        if cutlass.const_expr(self.config.cache_format == "bf16"):
            if row < rows:
                mAbsorbed[row, head, column // 2 + lane % _QUAD] = pack_pair(even, odd, form="bf16")
        else:
            mine = [_scaled(even, query_scale), _scaled(odd, query_scale)]
            next_two = [cute.arch.shuffle_sync_bfly(value, 1) for value in mine]
            if row < rows and lane % 2 == 0:
                mAbsorbed[row, head, column // 4 + lane % _QUAD // 2] = pack_e4m3(mine + next_two)

    @cute.jit
    def _pass_on(
        self,
        mQuery: cute.Tensor,
        mAbsorbed: cute.Tensor,
        rows: Int32,
        query_scale: Float32,
        head: Int32,
        row_block: Int32,
    ):
        """Copy the shared columns of one head, sixteen rows."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        vector = tid % c.shared_vectors
        words = VECTOR_WIDTH * c.element_bytes // _WORD_BYTES
        row = row_block * PRODUCT_M + tid // c.shared_vectors
        cute.arch.griddepcontrol_wait()
        if row < rows:
            rColumns = read_vector(mQuery[row, head, None], c.nope // VECTOR_WIDTH + vector)
            if cutlass.const_expr(c.cache_format == "bf16"):
                rWords = cute.recast_tensor(rColumns, Int32)
            else:
                rWords = cute.make_rmem_tensor((words,), Int32)
                for word in cutlass.range_constexpr(words):
                    rWords[word] = pack_e4m3(
                        [rColumns[4 * word + j].to(Float32) / query_scale for j in range(4)]
                    )
            place = c.latent // VECTOR_WIDTH + vector
            write_vector(rWords, mAbsorbed[row, head, None], place, words)


@cute.jit
def _scaled(value: Float32, scale: Float32) -> Float32:
    """A column, rounded to BF16 as in a BF16 query, over the scale."""
    return value.to(BFloat16).to(Float32) / scale
