# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
# ruff: noqa: SIM102
"""Device code that combines partial attention: one CTA per head, quarter of its latents and rows.

Few rows have many partials each and many rows have few, so the warps of a CTA are shared out among
its rows. Every warp weighs the partials of its row for itself and sums its share of them. For
values the four CTAs of a head are a cluster: each multiplies its quarter of the latents with its
quarter of the value projection, which it keeps in registers for all its rows, and the quarters meet
in one CTA's shared memory, a different one from row to row.
"""

import math
import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.cluster import store_to_peer
from k3decode.device.row_io import (
    VECTOR_WIDTH,
    WARP_SIZE,
    read_vector,
    row_tensor,
    write_vector,
)
from k3decode.device.split_rows import SplitRows, end_of, split_rows, start_of
from k3decode.ops.mla_combine.config import MlaCombineConfig

__all__ = ["MlaCombineKernel", "partials_of", "weigh_partials"]

_MANY_ROWS = 1 << 20
_LANE_COLUMNS = 4


class MlaCombineKernel:
    """Fixes where partials are and what is made of them at compile time."""

    def __init__(self, config: MlaCombineConfig) -> None:
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
        out_lse: cute.Pointer,
        head_stride: Int64,
        gate_stride: Int64,
        out_stride: Int64,
        rows: Int32,
        heads: Int32,
        rows_per_cta: Int32,
        tokens_per_request: Int32,
        tile_tokens: Int32,
        fewest_tiles: Int32,
        parts: Int32,
        rows_together: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over all heads and rows; `parts` are parts of the line of tiles, or ranks."""
        c = self.config
        values = cutlass.const_expr(c.output == "values")
        per_row = Int64(heads) * c.latent
        whole = cute.make_layout(
            (_MANY_ROWS, heads, c.latent),
            stride=(cute.assume(per_row, divby=c.latent), c.latent, 1),
        )
        logs = cute.make_layout((_MANY_ROWS, heads), stride=(Int64(heads), 1))
        if cutlass.const_expr(values):
            mOut = row_tensor(out, _MANY_ROWS, out_stride)
        else:
            mOut = cute.make_tensor(out, whole)
        self.kernel(
            cute.make_tensor(latents, whole),
            cute.make_tensor(lse, logs),
            cute.make_tensor(lengths, cute.make_layout(_MANY_ROWS)),
            cute.make_tensor(
                value_up,
                cute.make_layout(
                    (_MANY_ROWS, c.value, c.latent),
                    stride=(cute.assume(head_stride, divby=VECTOR_WIDTH), c.latent, 1),
                ),
            ),
            row_tensor(gate, _MANY_ROWS, gate_stride),
            mOut,
            cute.make_tensor(out_lse, logs),
            rows,
            rows_per_cta,
            tokens_per_request,
            tile_tokens,
            fewest_tiles,
            parts,
            rows_together,
        ).launch(
            grid=[c.slices, heads, (rows + rows_per_cta - 1) // rows_per_cta],
            block=[c.threads, 1, 1],
            cluster=[c.slices if values else 1, 1, 1],
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        mLatents: cute.Tensor,
        mLse: cute.Tensor,
        mLengths: cute.Tensor,
        mValueUp: cute.Tensor,
        mGate: cute.Tensor,
        mOut: cute.Tensor,
        mOutLse: cute.Tensor,
        rows: Int32,
        rows_per_cta: Int32,
        tokens_per_request: Int32,
        tile_tokens: Int32,
        fewest_tiles: Int32,
        parts: Int32,
        rows_together: Int32,
    ):
        """A quarter of one head's latents, a few rows, the warps shared out among them."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        piece, head, row_block = cute.arch.block_idx()
        smem = SmemAllocator()
        sSums = smem.allocate_tensor(
            Float32, cute.make_layout((c.warps, c.columns), stride=(c.columns, 1)), 16
        )
        sWeights = smem.allocate_tensor(
            Float32, cute.make_layout((c.warps, c.most_partials), stride=(c.most_partials, 1)), 16
        )
        sLatents = smem.allocate_tensor(
            Float32, cute.make_layout((c.most_rows, c.columns), stride=(c.columns, 1)), 16
        )
        sValues = smem.allocate_tensor(
            Float32,
            cute.make_layout(
                (c.most_rows, c.slices, c.value), stride=(c.slices * c.value, c.value, 1)
            ),
            16,
        )
        sLive = smem.allocate_tensor(Int32, cute.make_layout(c.most_rows), 16)
        if cutlass.const_expr(c.output == "values"):
            cute.arch.cluster_arrive()
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
        if cutlass.const_expr(c.output == "values"):
            rWeights = self._read_weights(mValueUp, piece, head)
        row_warps = c.warps // rows_per_cta
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        i = warp // row_warps
        first_row = row_block * rows_per_cta
        count = cutlass.min(rows_per_cta, rows - first_row)
        row = first_row + i
        if cutlass.const_expr(c.source == "parts"):
            split = split_rows(
                mLengths,
                rows // rows_together,
                tokens_per_request // rows_together,
                tile_tokens,
                fewest_tiles,
                parts,
            )
            first, step, partials = partials_of(split, row, rows_together)
        else:
            partials = parts
            first = row
            step = rows
        if row >= rows:
            partials = Int32(0)
        member = warp % row_warps
        loaded = self._ask(mLatents, piece, head, first, step, partials, member, row_warps)
        highest, total = weigh_partials(mLse, sWeights[warp, None], head, first, step, partials)
        rSum = cute.make_rmem_tensor((_LANE_COLUMNS,), Float32)
        rSum.fill(0.0)
        self._add(rSum, loaded, sWeights, partials, member, row_warps)
        for base in cutlass.range(member + c.ahead * row_warps, partials, c.ahead * row_warps):
            more = self._ask(mLatents, piece, head, first, step, partials, base, row_warps)
            self._add(rSum, more, sWeights, partials, base, row_warps)
        write_vector(rSum, sSums[warp, None], cute.arch.lane_idx(), _LANE_COLUMNS)
        if member == 0 and row < rows and cute.arch.lane_idx() == 0:
            sLive[i] = Int32(1) if total > 0.0 else Int32(0)
            if cutlass.const_expr(c.output == "latents"):
                if piece == 0:
                    log = highest + cute.math.log(total)
                    mOutLse[row, head] = log if total > 0.0 else Float32(-math.inf)
        cute.arch.sync_threads()
        for at in cutlass.range(tid, count * c.columns, c.threads):
            part = at // c.columns
            column = at % c.columns
            latent = sSums[part * row_warps, column]
            for other in cutlass.range(1, row_warps):
                latent = latent + sSums[part * row_warps + other, column]
            if cutlass.const_expr(c.output == "values"):
                sLatents[part, column] = latent
            else:
                mOut[first_row + part, head, piece * c.columns + column] = latent
        if cutlass.const_expr(c.output == "values"):
            cute.arch.sync_threads()
            cute.arch.cluster_wait()
            for part in cutlass.range(count):
                self._lift(rWeights, sLatents[part, None], sValues, part, piece)
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
            for part in cutlass.range(piece, count, c.slices):
                if tid < c.value:
                    self._gate(sValues, sLive, mGate, mOut, first_row + part, part, head, tid)

    @cute.jit
    def _read_weights(self, mValueUp: cute.Tensor, piece: Int32, head: Int32):
        """This CTA's columns of the value projection, eight rows per half warp."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        first = tid // c.half_warp * c.value_rows
        vector = piece * c.half_warp + tid % c.half_warp
        return [read_vector(mValueUp[head, first + i, None], vector) for i in range(c.value_rows)]

    @cute.jit
    def _ask(
        self,
        mLatents: cute.Tensor,
        piece: Int32,
        head: Int32,
        first: Int32,
        step: Int32,
        partials: Int32,
        base: Int32,
        row_warps: Int32,
    ):
        """Request this lane's columns of some partials of a row, the last one for those behind."""
        c = self.config
        loaded = []
        for j in cutlass.range_constexpr(c.ahead):
            rColumns = cute.make_rmem_tensor((_LANE_COLUMNS,), Float32)
            rColumns.fill(0.0)
            if partials > 0:
                place = first + cutlass.min(base + j * row_warps, partials - 1) * step
                gColumns = cute.local_tile(
                    mLatents[place, head, None],
                    (_LANE_COLUMNS,),
                    (piece * WARP_SIZE + cute.arch.lane_idx(),),
                )
                cute.autovec_copy(gColumns, rColumns)
            loaded.append(rColumns)
        return loaded

    @cute.jit
    def _add(
        self,
        rSum: cute.Tensor,
        loaded: list,
        sWeights: cute.Tensor,
        partials: Int32,
        base: Int32,
        row_warps: Int32,
    ):
        """Add partials with their weights; one of weight zero may be NaN."""
        c = self.config
        warp = cute.arch.warp_idx()
        for j in cutlass.range_constexpr(c.ahead):
            k = base + j * row_warps
            weight = sWeights[warp, cutlass.min(k, c.most_partials - 1)]
            for i in cutlass.range_constexpr(_LANE_COLUMNS):
                more = rSum[i] + weight * loaded[j][i]
                rSum[i] = more if k < partials and weight > 0.0 else rSum[i]

    @cute.jit
    def _lift(
        self,
        rWeights: list,
        sLatents: cute.Tensor,
        sValues: cute.Tensor,
        i: Int32,
        piece: Int32,
    ):
        """Multiply the latents with the value projection and send the sums to the row's CTA."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        lane = tid % c.half_warp
        latents = read_vector(sLatents, lane).load()
        mine = Float32(0.0)
        for j in cutlass.range_constexpr(c.value_rows):
            value = rWeights[j].load().to(Float32) * latents
            value = cute.arch.warp_reduction(
                value.reduce(cute.ReductionOp.ADD, 0.0, 0),
                operator.add,
                threads_in_group=c.half_warp,
            )
            mine = value if lane == j else mine
        if lane < c.value_rows:
            place = tid // c.half_warp * c.value_rows + lane
            at = (i * c.slices + piece) * c.value + place
            store_to_peer(sValues.iterator.toint() + 4 * at, i % c.slices, mine)

    @cute.jit
    def _gate(
        self,
        sValues: cute.Tensor,
        sLive: cute.Tensor,
        mGate: cute.Tensor,
        mOut: cute.Tensor,
        row: Int32,
        i: Int32,
        head: Int32,
        column: Int32,
    ):
        """One column of a head's value: sum of the quarters, rounded, gated; zero if there is none.

        The gate of a row without tokens may be NaN.
        """
        c = self.config
        value = sValues[i, 0, column]
        for other in cutlass.range_constexpr(1, c.slices):
            value = value + sValues[i, other, column]
        at = head * c.value + column
        gate = 1.0 / (1.0 + cute.math.exp(-mGate[row, at].to(Float32)))
        gated = value.to(BFloat16).to(Float32) * gate
        mOut[row, at] = (gated if sLive[i] > 0 else Float32(0.0)).to(BFloat16)


@cute.jit
def partials_of(split: SplitRows, row: Int32, rows_together: Int32):
    """First partial of a row, distance to the next, and how many there are."""
    # Rows that go together are one entry of the line, and their partials lie side by side.
    entry = row // rows_together
    start = start_of(split, entry)
    end = end_of(split, entry)
    first = start // split.quota
    partials = (end - 1) // split.quota - first + 1 if end > start else Int32(0)
    return (first + entry) * rows_together + row % rows_together, rows_together, partials


@cute.jit
def weigh_partials(
    mLse: cute.Tensor,
    sWeights: cute.Tensor,
    head: Int32,
    first: Int32,
    step: Int32,
    partials: Int32,
):
    """Weights of a row's partials, for this warp alone; largest logarithm and sum of weights.

    The sum is relative to the largest logarithm.
    """
    groups = cute.size(sWeights) // WARP_SIZE
    lane = cute.arch.lane_idx()
    logs = []
    highest = Float32(-math.inf)
    for j in cutlass.range_constexpr(groups):
        log = Float32(-math.inf)
        if lane + j * WARP_SIZE < partials:
            log = mLse[first + (lane + j * WARP_SIZE) * step, head]
        logs.append(log)
    for j in cutlass.range_constexpr(groups):
        highest = cute.arch.fmax(highest, logs[j])
    for j in cutlass.range_constexpr(5):
        highest = cute.arch.fmax(highest, cute.arch.shuffle_sync_bfly(highest, 1 << j))
    total = Float32(0.0)
    weights = []
    for j in cutlass.range_constexpr(groups):
        weights.append(_exponential(logs[j], highest))
        total = total + weights[j]
    total = cute.arch.warp_reduction(total, operator.add)
    for j in cutlass.range_constexpr(groups):
        sWeights[lane + j * WARP_SIZE] = weights[j] / total
    cute.arch.sync_warp()
    return highest, total


@cute.jit
def _exponential(value: Float32, highest: Float32) -> Float32:
    """exp(value - highest); zero for a partial of no tokens, also where all are such."""
    return cute.math.exp(value - highest) if value > Float32(-math.inf) else Float32(0.0)
