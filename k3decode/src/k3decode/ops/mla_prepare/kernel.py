# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
# ruff: noqa: PLR5501
"""Device code that prepares a step of MLA: one CTA per row, 16 bytes of it per thread.

The columns of a projected row come in the order in which they are needed, so thread i keeps vector
i whatever it is for: compressed query, compressed key and value, or shared columns.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.e4m3 import pack_e4m3
from k3decode.device.row_io import (
    VECTOR_WIDTH,
    read_vector,
    row_tensor,
    write_vector,
)
from k3decode.ops.mla_prepare.config import MlaPrepareConfig

__all__ = ["MlaPrepareKernel"]

_MANY_ROWS = 1 << 20
_WORDS_PER_VECTOR = 2


class MlaPrepareKernel:
    """Fixes widths and the format of the cache at compile time."""

    def __init__(self, config: MlaPrepareConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        projection: cute.Pointer,
        query_norm: cute.Pointer,
        latent_norm: cute.Pointer,
        slots: cute.Pointer,
        query: cute.Pointer,
        cache: cute.Pointer,
        projection_stride: Int64,
        query_stride: Int64,
        page_stride: Int64,
        rows: Int32,
        page_tokens: Int32,
        cache_scale: Float32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` rows; strides in elements, of rows or of cache pages."""
        c = self.config
        if cutlass.const_expr(c.cache_format == "bf16"):
            per_vector = VECTOR_WIDTH
            stored = cache
        else:
            # Four values to a word.
            per_vector = _WORDS_PER_VECTOR
            stored = cute.recast_ptr(cache, dtype=Int32)
            page_stride = page_stride // 4
        width = c.row // VECTOR_WIDTH * per_vector
        self.kernel(
            row_tensor(projection, c.used_width, projection_stride),
            cute.make_tensor(query_norm, cute.make_layout(c.query_rank)),
            cute.make_tensor(latent_norm, cute.make_layout(c.latent)),
            cute.make_tensor(slots, cute.make_layout(_MANY_ROWS)),
            row_tensor(query, c.query_rank, query_stride),
            cute.make_tensor(
                stored,
                cute.make_layout(
                    (_MANY_ROWS, _MANY_ROWS, width),
                    stride=(cute.assume(page_stride, divby=per_vector), width, 1),
                ),
            ),
            page_tokens,
            cache_scale,
        ).launch(grid=[rows, 1, 1], block=[c.threads, 1, 1], stream=stream, use_pdl=True)

    @cute.kernel
    def kernel(
        self,
        mProjection: cute.Tensor,
        mQueryNorm: cute.Tensor,
        mLatentNorm: cute.Tensor,
        mSlots: cute.Tensor,
        mQuery: cute.Tensor,
        mCache: cute.Tensor,
        page_tokens: Int32,
        cache_scale: Float32,
    ):
        """One row: two norms, one cache row; a negative slot stores nothing."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        warp = cute.arch.warp_idx()
        smem = SmemAllocator()
        sSquares = smem.allocate_tensor(
            Float32, cute.make_layout(c.query_warps + c.latent_warps), 16
        )
        query_vectors = c.query_rank // VECTOR_WIDTH
        vectors = c.used_width // VECTOR_WIDTH
        normed_vectors = query_vectors + c.latent // VECTOR_WIDTH
        rRow = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
        rRow.fill(0.0)
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
        if tid < vectors:
            cute.autovec_copy(
                cute.local_tile(mProjection[row, None], (VECTOR_WIDTH,), (tid,)), rRow
            )
        x = rRow.load().to(Float32)
        square = cute.arch.warp_reduction(
            (x * x).reduce(cute.ReductionOp.ADD, 0.0, 0), operator.add
        )
        if cute.arch.lane_idx() == 0 and warp < c.query_warps + c.latent_warps:
            sSquares[warp] = square
        cute.arch.sync_threads()
        slot = mSlots[row]
        if tid < query_vectors:
            scale = self._scale(sSquares, 0, c.query_warps, c.query_rank)
            self._normalise(rRow, mQueryNorm, tid, scale)
            write_vector(rRow, mQuery[row, None], tid)
        else:
            if tid < vectors and slot >= 0:
                if tid < normed_vectors:
                    scale = self._scale(sSquares, c.query_warps, c.latent_warps, c.latent)
                    self._normalise(rRow, mLatentNorm, tid - query_vectors, scale)
                page = slot // Int64(page_tokens)
                gCache = mCache[page, Int32(slot - page * page_tokens), None]
                self._store(rRow, gCache, tid - query_vectors, cache_scale)

    @cute.jit
    def _scale(self, sSquares: cute.Tensor, first: int, warps: int, width: int) -> Float32:
        """One over the root of the mean square."""
        total = sSquares[first]
        for i in cutlass.range_constexpr(1, warps):
            total = total + sSquares[first + i]
        return cute.math.rsqrt(total * (1.0 / width) + self.config.norm_eps)

    @cute.jit
    def _normalise(self, rRow: cute.Tensor, mNorm: cute.Tensor, vector: Int32, scale: Float32):
        """Scale and weight this thread's columns, rounded to BF16."""
        weight = read_vector(mNorm, vector).load().to(Float32)
        rRow.store((rRow.load().to(Float32) * scale * weight).to(BFloat16))

    @cute.jit
    def _store(self, rRow: cute.Tensor, gCache: cute.Tensor, vector: Int32, cache_scale: Float32):
        """Write this thread's columns of the cache row."""
        if cutlass.const_expr(self.config.cache_format == "bf16"):
            write_vector(rRow, gCache, vector)
        else:
            rWords = cute.make_rmem_tensor((_WORDS_PER_VECTOR,), Int32)
            for word in cutlass.range_constexpr(_WORDS_PER_VECTOR):
                rWords[word] = pack_e4m3(
                    [rRow[4 * word + i].to(Float32) / cache_scale for i in range(4)]
                )
            write_vector(rWords, gCache, vector, _WORDS_PER_VECTOR)
