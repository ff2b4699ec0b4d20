# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code that combines partial attention of many rows: one CTA per head, half value, 16 rows.

Each warp weighs and sums the partials of its rows. Matrix instructions multiply the sums with the
value projection, which arrives meanwhile. They take BF16, so a sum is two operands: what BF16 holds
of it, and what BF16 holds of the rest.
"""

import math

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.async_copy import COPY_BYTES, request_copy
from k3decode.device.row_io import (
    VECTOR_WIDTH,
    WARP_SIZE,
    read_vector,
    row_tensor,
    write_vector,
)
from k3decode.device.split_rows import split_rows
from k3decode.device.warp_matrix import PRODUCT_K, PRODUCT_N, load_matrices, product
from k3decode.ops.mla_combine.kernel import partials_of, weigh_partials
from k3decode.ops.mla_combine_many.config import MlaCombineManyConfig

__all__ = ["MlaCombineManyKernel"]

_MANY_ROWS = 1 << 20
_QUAD = 4
_PAIR = 2
_MATRIX_ROWS = 8
_BF16_BYTES = 2


class MlaCombineManyKernel:
    """Fixes where partials are at compile time."""

    def __init__(self, config: MlaCombineManyConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        latents: cute.Pointer,
        lse: cute.Pointer,
        lengths: cute.Pointer,
        value_up: cute.Pointer,
        gate: cute.Pointer,
        out: cute.Pointer,
        head_stride: Int64,
        gate_stride: Int64,
        out_stride: Int64,
        rows: Int32,
        heads: Int32,
        tokens_per_request: Int32,
        tile_tokens: Int32,
        fewest_tiles: Int32,
        parts: Int32,
        rows_together: Int32,
        stream: cuda.CUstream,
    ):
        """Launch; arguments as `MlaCombineKernel`'s."""
        c = self.config
        per_row = Int64(heads) * c.latent
        self.kernel(
            cute.make_tensor(
                latents,
                cute.make_layout(
                    (_MANY_ROWS, heads, c.latent),
                    stride=(cute.assume(per_row, divby=c.latent), c.latent, 1),
                ),
            ),
            cute.make_tensor(lse, cute.make_layout((_MANY_ROWS, heads), stride=(Int64(heads), 1))),
            cute.make_tensor(lengths, cute.make_layout(_MANY_ROWS)),
            value_up.toint(),
            head_stride * _BF16_BYTES,
            row_tensor(gate, _MANY_ROWS, gate_stride),
            row_tensor(out, _MANY_ROWS, out_stride),
            rows,
            tokens_per_request,
            tile_tokens,
            fewest_tiles,
            parts,
            rows_together,
        ).launch(
            grid=[c.slices, heads, (rows + c.rows - 1) // c.rows],
            block=[c.threads, 1, 1],
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        mLatents: cute.Tensor,
        mLse: cute.Tensor,
        mLengths: cute.Tensor,
        value_up: Int64,
        head_bytes: Int64,
        mGate: cute.Tensor,
        mOut: cute.Tensor,
        rows: Int32,
        tokens_per_request: Int32,
        tile_tokens: Int32,
        fewest_tiles: Int32,
        parts: Int32,
        rows_together: Int32,
    ):
        """Sixteen rows of one head, some columns of the value."""
        c = self.config
        piece, head, row_block = cute.arch.block_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        smem = SmemAllocator()
        matrix = cute.make_layout((c.rows, c.latent), stride=(c.pitch, 1))
        sProjection = smem.allocate_tensor(
            BFloat16, cute.make_layout((c.columns, c.latent), stride=(c.pitch, 1)), 128
        )
        sMost = smem.allocate_tensor(BFloat16, matrix, 128)
        sRest = smem.allocate_tensor(BFloat16, matrix, 128)
        sWeights = smem.allocate_tensor(
            Float32, cute.make_layout((c.rows, c.most_partials), stride=(c.most_partials, 1)), 16
        )
        sLive = smem.allocate_tensor(Int32, cute.make_layout(c.rows), 16)
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
        self._fetch_projection(value_up + Int64(head) * head_bytes, sProjection, piece)
        gates = self._read_gates(mGate, rows, row_block, head, piece)
        if cutlass.const_expr(c.source == "parts"):
            split = split_rows(
                mLengths,
                rows // rows_together,
                tokens_per_request // rows_together,
                tile_tokens,
                fewest_tiles,
                parts,
            )
        places = []
        for i in cutlass.range_constexpr(c.warp_rows):
            row = row_block * c.rows + warp * c.warp_rows + i
            first, step, partials = row, rows, parts
            if cutlass.const_expr(c.source == "parts"):
                first, step, partials = partials_of(
                    split, cutlass.min(row, rows - 1), rows_together
                )
            places.append((first, step, partials if row < rows else Int32(0)))
        self._combine(mLatents, mLse, sWeights, sLive, sMost, sRest, places, head, warp)
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()
        sums = self._lift(sProjection, sMost, sRest, warp)
        self._write(sums, gates, sLive, mOut, rows, row_block, head, piece)

    @cute.jit
    def _fetch_projection(self, head_start: Int64, sProjection: cute.Tensor, piece: Int32):
        """Request the value projection's rows of this CTA."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        vectors = c.latent // VECTOR_WIDTH
        at_once = c.threads // vectors
        row, vector = tid // vectors, tid % vectors
        target = sProjection.iterator.toint() + row * c.pitch_bytes + vector * COPY_BYTES
        place = (piece * c.columns + row) * (c.latent * _BF16_BYTES) + vector * COPY_BYTES
        source = head_start + Int64(place)
        for i in cutlass.range_constexpr(c.columns // at_once):
            offset = (i * at_once * c.pitch_bytes, i * at_once * c.latent * _BF16_BYTES)
            request_copy(target, source, Int32(COPY_BYTES), offset)
        cute.arch.cp_async_commit_group()

    @cute.jit
    def _read_gates(
        self, mGate: cute.Tensor, rows: Int32, row_block: Int32, head: Int32, piece: Int32
    ):
        """What gates this thread's outputs: two columns of two rows."""
        c = self.config
        pair = self._pair(head, piece)
        gates = []
        for upper in cutlass.range_constexpr(2):
            row = row_block * c.rows + cute.arch.lane_idx() // _QUAD + upper * _MATRIX_ROWS
            gates.append(read_vector(mGate[cutlass.min(row, rows - 1), None], pair, _PAIR))
        return gates

    @cute.jit
    def _pair(self, head: Int32, piece: Int32) -> Int32:
        """Number of this thread's two columns in a row of values."""
        c = self.config
        column = head * c.value + piece * c.columns + cute.arch.warp_idx() * PRODUCT_N
        return column // _PAIR + cute.arch.lane_idx() % _QUAD

    @cute.jit
    def _combine(
        self,
        mLatents: cute.Tensor,
        mLse: cute.Tensor,
        sWeights: cute.Tensor,
        sLive: cute.Tensor,
        sMost: cute.Tensor,
        sRest: cute.Tensor,
        places: list,
        head: Int32,
        warp: Int32,
    ):
        """One warp: the sums of its rows, as operands of matrix instructions."""
        c = self.config
        most = Int32(0)
        loaded, sums = [], []
        for i in cutlass.range_constexpr(c.warp_rows):
            loaded.append(self._ask(mLatents, places[i], head, Int32(0)))
            most = cutlass.max(most, places[i][2])
        for i in cutlass.range_constexpr(c.warp_rows):
            first, step, partials = places[i]
            row = warp * c.warp_rows + i
            _, total = weigh_partials(mLse, sWeights[row, None], head, first, step, partials)
            if cute.arch.lane_idx() == 0:
                sLive[row] = Int32(1) if total > 0.0 else Int32(0)
            rSum = cute.make_rmem_tensor((_QUAD, c.lane_quads), Float32)
            rSum.fill(0.0)
            self._add(rSum, loaded[i], sWeights[row, None], partials, Int32(0))
            sums.append(rSum)
        for base in cutlass.range(c.ahead, most, c.ahead):
            more = []
            for i in cutlass.range_constexpr(c.warp_rows):
                more.append(self._ask(mLatents, places[i], head, base))
            for i in cutlass.range_constexpr(c.warp_rows):
                row = warp * c.warp_rows + i
                self._add(sums[i], more[i], sWeights[row, None], places[i][2], base)
        for i in cutlass.range_constexpr(c.warp_rows):
            row = warp * c.warp_rows + i
            self._keep(sums[i], sMost[row, None], sRest[row, None])

    @cute.jit
    def _ask(self, mLatents: cute.Tensor, place: tuple, head: Int32, base: Int32):
        """Request this lane's columns of some partials of a row, the last one for those behind.

        A row without partials reads what is not used.
        """
        c = self.config
        first, step, partials = place
        loaded = []
        for j in cutlass.range_constexpr(c.ahead):
            last = first + cutlass.min(base + j, partials - 1) * step
            gLatents = mLatents[last if partials > 0 else 0, head, None]
            for quad in cutlass.range_constexpr(c.lane_quads):
                at = quad * WARP_SIZE + cute.arch.lane_idx()
                loaded.append(read_vector(gLatents, at, _QUAD))
        return loaded

    @cute.jit
    def _add(
        self, rSum: cute.Tensor, loaded: list, sShares: cute.Tensor, partials: Int32, base: Int32
    ):
        """Add partials with their weights; one of weight zero may be NaN."""
        c = self.config
        for j in cutlass.range_constexpr(c.ahead):
            weight = sShares[cutlass.min(base + j, c.most_partials - 1)]
            if base + j < partials and weight > 0.0:
                for quad in cutlass.range_constexpr(c.lane_quads):
                    for i in cutlass.range_constexpr(_QUAD):
                        more = weight * loaded[j * c.lane_quads + quad][i]
                        rSum[i, quad] = rSum[i, quad] + more

    @cute.jit
    def _keep(self, rSum: cute.Tensor, sMost: cute.Tensor, sRest: cute.Tensor):
        """Store a row's sums as two operands; an infinite sum has no rest."""
        c = self.config
        for quad in cutlass.range_constexpr(c.lane_quads):
            rMost = cute.make_rmem_tensor((_QUAD,), BFloat16)
            rRest = cute.make_rmem_tensor((_QUAD,), BFloat16)
            for i in cutlass.range_constexpr(_QUAD):
                most = rSum[i, quad].to(BFloat16)
                rest = rSum[i, quad] - most.to(Float32)
                finite = cute.math.absf(rSum[i, quad]) < Float32(math.inf)
                rMost[i] = most
                rRest[i] = (rest if finite else Float32(0.0)).to(BFloat16)
            at = quad * WARP_SIZE + cute.arch.lane_idx()
            write_vector(rMost, sMost, at, _QUAD)
            write_vector(rRest, sRest, at, _QUAD)

    @cute.jit
    def _lift(self, sProjection: cute.Tensor, sMost: cute.Tensor, sRest: cute.Tensor, warp: Int32):
        """Multiply all rows with eight rows of the value projection; four sums of this lane."""
        c = self.config
        lane = cute.arch.lane_idx()
        matrix, row = lane // _MATRIX_ROWS, lane % _MATRIX_ROWS
        right = (
            sProjection.iterator.toint()
            + (warp * PRODUCT_N + row) * c.pitch_bytes
            + matrix * COPY_BYTES
        )
        place = (row + matrix % 2 * _MATRIX_ROWS) * c.pitch_bytes + matrix // 2 * COPY_BYTES
        rSums = cute.make_rmem_tensor((_QUAD, 4), Float32)
        rSums.fill(0.0)
        step_bytes = PRODUCT_K * _BF16_BYTES
        # Not all unrolled: code that runs once is fetched as slowly as it is long.
        for turn in cutlass.range(c.latent // (2 * PRODUCT_K), unroll=2):
            along = 2 * turn * step_bytes
            projected = load_matrices(right + along)
            for part in cutlass.range_constexpr(2):
                operand = sMost if part == 0 else sRest
                left = operand.iterator.toint() + place + along
                for step in cutlass.range_constexpr(2):
                    chain = 2 * part + step
                    total = product(
                        [rSums[j, chain] for j in range(_QUAD)],
                        load_matrices(left, step * step_bytes),
                        projected[2 * step : 2 * step + 2],
                        form="bf16",
                    )
                    for j in cutlass.range_constexpr(_QUAD):
                        rSums[j, chain] = total[j]
        return [(rSums[j, 2] + rSums[j, 3]) + (rSums[j, 0] + rSums[j, 1]) for j in range(_QUAD)]

    @cute.jit
    def _write(
        self,
        sums: list,
        gates: list,
        sLive: cute.Tensor,
        mOut: cute.Tensor,
        rows: Int32,
        row_block: Int32,
        head: Int32,
        piece: Int32,
    ):
        """Round, gate and store; zero for a row without tokens, whose gate may be NaN."""
        c = self.config
        pair = self._pair(head, piece)
        for upper in cutlass.range_constexpr(2):
            own = cute.arch.lane_idx() // _QUAD + upper * _MATRIX_ROWS
            row = row_block * c.rows + own
            rOut = cute.make_rmem_tensor((_PAIR,), BFloat16)
            for j in cutlass.range_constexpr(_PAIR):
                value = sums[_PAIR * upper + j].to(BFloat16).to(Float32)
                gate = 1.0 / (1.0 + cute.math.exp(-gates[upper][j].to(Float32)))
                gated = value * gate
                rOut[j] = (gated if sLive[own] > 0 else Float32(0.0)).to(BFloat16)
            if row < rows:
                write_vector(rOut, mOut[row, None], pair, _PAIR)
