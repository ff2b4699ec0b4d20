# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
# ruff: noqa: PLR5501
"""Device code of a projection: weights streamed once, through rings that no two threads share.

A warp owns blocks of 16 weight rows. A matrix instruction wants from a lane values of the rows g
and g + 8 at four columns; which columns those are is free as long as weights and activations agree.
So lane 4 g + t takes 16 consecutive bytes of each row, copies them asynchronously into a slot of
its own and reads them back itself: the stream of weights needs no barrier. Activations arrive by
bulk copies in two buffers. Warps and CTAs that split the columns add their sums in a fixed order.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.cute.nvgpu import LoadCacheMode, cpasync
from cutlass.memory import SmemAllocator

from k3decode.device.row_io import VECTOR_WIDTH, WARP_SIZE
from k3decode.ops.projection.config import (
    ACTIVATION_BUFFERS,
    BLOCK_ROWS,
    ProjectionConfig,
)

__all__ = ["QUAD", "ProjectionKernel", "load_quad", "write_pair", "write_plain"]

_MANY = 1 << 20
QUAD = 4
"""Neighbouring outputs that one thread writes."""

_TILE_TOKENS = 8
_MATRIX = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


class ProjectionKernel:
    """Fixes tile, ring, split and arithmetic at compile time; shapes stay free."""

    def __init__(self, config: ProjectionConfig) -> None:
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
        """Launch; strides in elements. The first `fp32_rows` weight rows have FP32 outputs.

        With SiTU, rows from `plain_rows` on are pairs.
        """
        c = self.config
        self.kernel(
            _matrix(weight, weight_stride, VECTOR_WIDTH),
            _matrix(activation, activation_stride, VECTOR_WIDTH),
            _matrix(out_fp32, fp32_stride, QUAD),
            _matrix(out_bf16, bf16_stride, VECTOR_WIDTH),
            tokens,
            rows,
            columns,
            fp32_rows,
            plain_rows,
        ).launch(
            grid=[c.split, cute.ceil_div(rows, c.tile_rows), 1],
            block=[c.threads, 1, 1],
            cluster=[c.split, 1, 1] if c.split > 1 else None,
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        mWeight: cute.Tensor,
        mActivation: cute.Tensor,
        mOutFp32: cute.Tensor,
        mOutBf16: cute.Tensor,
        tokens: Int32,
        rows: Int32,
        columns: Int32,
        fp32_rows: Int32,
        plain_rows: Int32,
    ):
        """One tile of weight rows and, within a cluster, one share of the columns."""
        c = self.config
        share, tile, _ = cute.arch.block_idx()
        units = columns // c.unit_columns
        first = share * units // c.split
        units = (share + 1) * units // c.split - first
        smem = SmemAllocator()
        barriers = smem.allocate_array(Int64, ACTIVATION_BUFFERS)
        memory = smem.allocate(c.shared_bytes, 128)
        sRing, sActivation, sPartial = self._views(memory)
        gWeights = self._own_rows(mWeight, tile * c.tile_rows, rows, first)

        if cute.arch.thread_idx()[0] == 0:
            for i in cutlass.range_constexpr(ACTIVATION_BUFFERS):
                cute.arch.mbarrier_init(barriers + i, 1)
            cute.arch.mbarrier_init_fence()
        for i in cutlass.range_constexpr(c.stages - 1):
            self._fetch_unit(gWeights, sRing, Int32(i), Int32(i), units)
            if cutlass.const_expr(c.ahead is not None and i + 1 >= c.ahead):
                cute.arch.cp_async_wait_group(c.ahead - 1)
        cute.arch.sync_threads()
        cute.arch.griddepcontrol_launch_dependents()
        # Weights never change; everything else may still be written by the launch before.
        cute.arch.griddepcontrol_wait()
        for i in cutlass.range_constexpr(ACTIVATION_BUFFERS):
            self._fetch_activation(
                mActivation, sActivation, barriers, Int32(i), first, units, tokens
            )
        rSum = self._stream(
            gWeights, mActivation, sRing, sActivation, barriers, first, units, tokens
        )
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()
        self._store_partial(rSum, sPartial)
        cute.arch.sync_threads()
        limits = (rows, fp32_rows, plain_rows)
        self._finish(sPartial, mOutFp32, mOutBf16, share, tile, tokens, limits)

    @cute.jit
    def _views(self, memory: cute.Pointer):
        """Rings, activation buffers and, over both of them, partial sums."""
        c = self.config
        vectors = c.blocks * c.unit_parts * 2
        lane_vectors = VECTOR_WIDTH * WARP_SIZE
        ring = cute.make_layout(
            (VECTOR_WIDTH, WARP_SIZE, vectors, c.stages, c.warps),
            stride=(
                1,
                VECTOR_WIDTH,
                lane_vectors,
                vectors * lane_vectors,
                c.stages * vectors * lane_vectors,
            ),
        )
        activation = cute.make_layout(
            (VECTOR_WIDTH, c.token_pitch // VECTOR_WIDTH, c.kept_rows, ACTIVATION_BUFFERS),
            stride=(1, VECTOR_WIDTH, c.token_pitch, c.kept_rows * c.token_pitch),
        )
        partial = cute.make_layout(
            (c.partial_pitch, c.tokens, c.warps_k),
            stride=(1, c.partial_pitch, c.tokens * c.partial_pitch),
        )
        return (
            cute.make_tensor(cute.recast_ptr(memory, dtype=BFloat16), ring),
            cute.make_tensor(cute.recast_ptr(memory + c.ring_bytes, dtype=BFloat16), activation),
            cute.make_tensor(cute.recast_ptr(memory, dtype=Float32), partial),
        )

    @cute.jit
    def _own_rows(self, mWeight: cute.Tensor, first_row: Int32, rows: Int32, first: Int32):
        """The rows this lane reads, two per block, from this share's first column on."""
        c = self.config
        group = cute.arch.lane_idx() // QUAD
        own = first_row + (_warp() % c.warps_n) * (c.blocks * BLOCK_ROWS)
        gRows = []
        for i in cutlass.range_constexpr(2 * c.blocks):
            # A row beyond the last is read as the last one, and never stored.
            row = cutlass.min(own + group + i * (BLOCK_ROWS // 2), rows - 1)
            start = cute.assume(first * c.unit_columns, divby=c.unit_columns)
            gRows.append(cute.domain_offset((start,), mWeight[row, None]))
        return gRows

    @cute.jit
    def _fetch_unit(
        self, gWeights: list, sRing: cute.Tensor, turn: Int32, slot: Int32, units: Int32
    ):
        """Begin to copy this lane's part of the warp's unit of one turn, and close the group."""
        c = self.config
        lane = cute.arch.lane_idx()
        warp = _warp()
        unit = warp // c.warps_n + turn * c.warps_k
        copy = cute.make_copy_atom(
            cpasync.CopyG2SOp(cache_mode=LoadCacheMode.GLOBAL), BFloat16, num_bits_per_copy=128
        )
        if unit < units:
            for i in cutlass.range_constexpr(2 * c.blocks):
                for part in cutlass.range_constexpr(c.unit_parts):
                    place = unit * (c.unit_columns // VECTOR_WIDTH) + part * QUAD + lane % QUAD
                    cute.copy(
                        copy,
                        cute.local_tile(gWeights[i], (VECTOR_WIDTH,), (place,)),
                        sRing[None, lane, i * c.unit_parts + part, slot, warp],
                    )
        # An empty group keeps the count of groups in flight.
        cute.arch.cp_async_commit_group()

    @cute.jit
    def _fetch_activation(
        self,
        mActivation: cute.Tensor,
        sActivation: cute.Tensor,
        barriers: cute.Pointer,
        phase: Int32,
        first: Int32,
        units: Int32,
        tokens: Int32,
    ):
        """All warps: begin to copy the activations of a phase, one bulk copy per token."""
        c = self.config
        begin = phase * c.phase_units
        buffer = phase % ACTIVATION_BUFFERS
        row_bytes = cutlass.min(units - begin, c.phase_units) * (c.unit_columns * 2)
        if row_bytes > 0:
            if cute.arch.thread_idx()[0] == 0:
                cute.arch.mbarrier_arrive_and_expect_tx(barriers + buffer, tokens * row_bytes)
            # Issuing takes a warp tens of cycles per copy, so every warp takes a share.
            for token in cutlass.range(_warp(), tokens, c.warps):
                start = (first + begin) * c.unit_columns
                source = cute.domain_offset((start,), mActivation[token, None])
                target = sActivation[None, 0, token, buffer]
                with cute.arch.elect_one():
                    _bulk_copy(target.iterator, source.iterator, row_bytes, barriers + buffer)

    @cute.jit
    def _stream(
        self,
        gWeights: list,
        mActivation: cute.Tensor,
        sRing: cute.Tensor,
        sActivation: cute.Tensor,
        barriers: cute.Pointer,
        first: Int32,
        units: Int32,
        tokens: Int32,
    ):
        """All turns of this warp; returns its sums."""
        c = self.config
        values = QUAD * c.token_tiles if c.uses_tensor_cores else 2 * c.tokens
        rSum = cute.make_rmem_tensor((values, c.blocks), Float32)
        rSum.fill(0.0)
        # Products are added to these.
        rChain = rSum
        if cutlass.const_expr(c.adds_phases):
            rChain = cute.make_rmem_tensor((values, c.blocks), Float32)
        turns = cute.ceil_div(units, c.warps_k)
        phase_turns = c.phase_units // c.warps_k
        phases = cute.ceil_div(units, c.phase_units)
        slot = Int32(0)
        next_slot = Int32(c.stages - 1)
        for phase in cutlass.range(phases):
            if phase > 0 and phase + 1 < phases:
                # Every warp has left the buffer that the next phase will fill.
                cute.arch.sync_threads()
                self._fetch_activation(
                    mActivation, sActivation, barriers, phase + 1, first, units, tokens
                )
            buffer = phase % ACTIVATION_BUFFERS
            cute.arch.mbarrier_wait(barriers + buffer, (phase // ACTIVATION_BUFFERS) % 2)
            if cutlass.const_expr(c.adds_phases):
                rChain.fill(0.0)
            first_turn = phase * phase_turns
            last_turn = cutlass.min(first_turn + phase_turns, turns)
            for turn in cutlass.range(first_turn, last_turn, 1):
                cute.arch.cp_async_wait_group(c.stages - 2)
                unit = _warp() // c.warps_n + turn * c.warps_k
                if unit < units:
                    self._multiply(
                        rChain, sRing, sActivation, slot, unit - phase * c.phase_units, buffer
                    )
                # The slot of the turn before: its values are in registers.
                self._fetch_unit(gWeights, sRing, turn + (c.stages - 1), next_slot, units)
                next_slot = slot
                slot = Int32(0) if slot == c.stages - 1 else slot + 1
            if cutlass.const_expr(c.adds_phases):
                rSum.store(rSum.load() + rChain.load())
        return rSum

    @cute.jit
    def _multiply(
        self,
        rSum: cute.Tensor,
        sRing: cute.Tensor,
        sActivation: cute.Tensor,
        slot: Int32,
        unit: Int32,
        buffer: Int32,
    ):
        """Add one unit's products."""
        c = self.config
        lane = cute.arch.lane_idx()
        warp = _warp()
        for part in cutlass.range_constexpr(c.unit_parts):
            place = (unit * c.unit_parts + part) * QUAD + lane % QUAD
            if cutlass.const_expr(c.uses_tensor_cores):
                rWeights = [
                    _words(sRing[None, lane, i * c.unit_parts + part, slot, warp])
                    for i in range(2 * c.blocks)
                ]
                for tile in cutlass.range_constexpr(c.token_tiles):
                    token = tile * _TILE_TOKENS + lane // QUAD
                    if cutlass.const_expr(c.kept_rows < c.tokens):
                        token = cutlass.min(token, c.kept_rows - 1)
                    rTokens = _words(sActivation[None, place, token, buffer])
                    for block in cutlass.range_constexpr(c.blocks):
                        for step in cutlass.range_constexpr(2):
                            _matrix_product(
                                rSum,
                                (block, tile, step),
                                rWeights[2 * block],
                                rWeights[2 * block + 1],
                                rTokens,
                            )
            else:
                rTokens = [
                    _values(sActivation[None, place, token, buffer]) for token in range(c.tokens)
                ]
                for i in cutlass.range_constexpr(2 * c.blocks):
                    weight = _values(sRing[None, lane, i * c.unit_parts + part, slot, warp])
                    for token in cutlass.range_constexpr(c.tokens):
                        total = rSum[2 * token + i % 2, i // 2]
                        for j in cutlass.range_constexpr(VECTOR_WIDTH):
                            total = total + weight[j] * rTokens[token][j]
                        rSum[2 * token + i % 2, i // 2] = total

    @cute.jit
    def _store_partial(self, rSum: cute.Tensor, sPartial: cute.Tensor):
        """Put this warp's sums where the others can read them."""
        c = self.config
        lane = cute.arch.lane_idx()
        warp = _warp()
        own = sPartial[None, None, warp // c.warps_n]
        for block in cutlass.range_constexpr(c.blocks):
            row = ((warp % c.warps_n) * c.blocks + block) * BLOCK_ROWS + lane // QUAD
            if cutlass.const_expr(c.uses_tensor_cores):
                for tile in cutlass.range_constexpr(c.token_tiles):
                    token = tile * _TILE_TOKENS + 2 * (lane % QUAD)
                    for i in cutlass.range_constexpr(QUAD):
                        own[row + (i // 2) * (BLOCK_ROWS // 2), token + i % 2] = rSum[
                            QUAD * tile + i, block
                        ]
            else:
                for i in cutlass.range_constexpr(2 * c.tokens):
                    total = cute.arch.warp_reduction(
                        rSum[i, block], operator.add, threads_in_group=QUAD
                    )
                    if lane % QUAD == 0:
                        own[row + (i % 2) * (BLOCK_ROWS // 2), i // 2] = total

    @cute.jit
    def _finish(
        self,
        sPartial: cute.Tensor,
        mOutFp32: cute.Tensor,
        mOutBf16: cute.Tensor,
        share: Int32,
        tile: Int32,
        tokens: Int32,
        limits: tuple,
    ):
        """Add the warps' sums, then the cluster's, in their order; write this CTA's part."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        row_quads = c.tile_rows // QUAD
        quads = tokens * row_quads
        if cutlass.const_expr(c.split == 1):
            for i in cutlass.range(tid, quads, c.threads):
                total = self._warp_total(sPartial, i // row_quads, i % row_quads)
                self._write(total, mOutFp32, mOutBf16, i, tile, limits)
        else:
            self._share_totals(sPartial, tid, quads)
            part = cute.ceil_div(quads, c.split)
            last = cutlass.min((share + 1) * part, quads)
            for i in cutlass.range(share * part + tid, last, c.threads):
                total = self._cluster_total(sPartial, i // row_quads, i % row_quads)
                self._write(total, mOutFp32, mOutBf16, i, tile, limits)
            # Nobody may leave while another still reads its sums.
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()

    @cute.jit
    def _share_totals(self, sPartial: cute.Tensor, tid: Int32, quads: Int32):
        """Add the warps' sums in place, and wait for the other CTAs of the cluster."""
        c = self.config
        row_quads = c.tile_rows // QUAD
        for i in cutlass.range(tid, quads, c.threads):
            total = self._warp_total(sPartial, i // row_quads, i % row_quads)
            store_quad(sPartial[None, i // row_quads, 0], i % row_quads, total)
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()

    @cute.jit
    def _cluster_total(self, sPartial: cute.Tensor, token: Int32, quad: Int32):
        """Sum over the CTAs that split the columns, four weight rows."""
        place = sPartial[None, token, 0].iterator + quad * QUAD
        parts = [_remote_quad(place, Int32(peer)) for peer in range(self.config.split)]
        total = parts[0]
        for peer in cutlass.range_constexpr(1, self.config.split):
            total = [total[j] + parts[peer][j] for j in range(QUAD)]
        return total

    @cute.jit
    def _warp_total(self, sPartial: cute.Tensor, token: Int32, quad: Int32):
        """Sum over the warps that split the columns, four weight rows."""
        c = self.config
        total = load_quad(sPartial[None, token, 0], quad)
        for i in cutlass.range_constexpr(1, c.warps_k):
            part = load_quad(sPartial[None, token, i], quad)
            total = [total[j] + part[j] for j in range(QUAD)]
        return total

    @cute.jit
    def _write(
        self,
        total: list,
        mOutFp32: cute.Tensor,
        mOutBf16: cute.Tensor,
        index: Int32,
        tile: Int32,
        limits: tuple,
    ):
        """Round and store four neighbouring outputs, or the two that SiTU makes of them."""
        c = self.config
        row_quads = c.tile_rows // QUAD
        token = index // row_quads
        row = tile * c.tile_rows + (index % row_quads) * QUAD
        rows, fp32_rows, plain_rows = limits
        if row < rows:
            gFp32, gBf16 = mOutFp32[token, None], mOutBf16[token, None]
            if cutlass.const_expr(c.situ is None):
                write_plain(total, gFp32, gBf16, row, fp32_rows)
            else:
                if row < plain_rows:
                    write_plain(total, gFp32, gBf16, row, fp32_rows)
                else:
                    write_pair(total, gBf16, row, fp32_rows, plain_rows, c.situ)


@cute.jit
def write_plain(
    total: list, gOutFp32: cute.Tensor, gOutBf16: cute.Tensor, row: Int32, fp32_rows: Int32
) -> None:
    """Store four neighbouring outputs in the format of their rows."""
    if row < fp32_rows:
        store_quad(gOutFp32, row // QUAD, total)
    else:
        rQuad = cute.make_rmem_tensor((QUAD,), BFloat16)
        for j in cutlass.range_constexpr(QUAD):
            rQuad[j] = total[j].to(BFloat16)
        cute.autovec_copy(rQuad, cute.local_tile(gOutBf16, (QUAD,), ((row - fp32_rows) // QUAD,)))


@cute.jit
def write_pair(
    total: list,
    gOutBf16: cute.Tensor,
    row: Int32,
    fp32_rows: Int32,
    plain_rows: Int32,
    situ: cutlass.Constexpr,
) -> None:
    """Store the two outputs that SiTU makes of gate, up, gate and up."""
    rPair = cute.make_rmem_tensor((2,), BFloat16)
    for j in cutlass.range_constexpr(2):
        gate = total[2 * j].to(BFloat16).to(Float32)
        up = total[2 * j + 1].to(BFloat16).to(Float32)
        rPair[j] = _situ(gate, up, situ.beta, situ.linear_beta).to(BFloat16)
    place = (plain_rows - fp32_rows) // 2 + (row - plain_rows) // QUAD
    cute.autovec_copy(rPair, cute.local_tile(gOutBf16, (2,), (place,)))


@cute.jit
def _warp() -> Int32:
    """This warp's number, known to the compiler to be the same in all lanes."""
    return cute.arch.make_warp_uniform(cute.arch.warp_idx())


@cute.jit
def _matrix(pointer: cute.Pointer, stride: Int64, multiple: int) -> cute.Tensor:
    """Rows of a stride that is a multiple of a vector; extents are the launch's business."""
    layout = cute.make_layout((_MANY, _MANY), stride=(cute.assume(stride, divby=multiple), 1))
    return cute.make_tensor(pointer, layout)


@cute.jit
def _bulk_copy(
    target: cute.Pointer, source: cute.Pointer, count: Int32, barrier: cute.Pointer
) -> None:
    """Begin to copy bytes from global to shared memory; the barrier counts their arrival."""
    cute.arch.inline_ptx(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[{$r0}], [{$r1}], {$r2}, [{$r3}];",
        read_only_args=[target, source, count, barrier],
    )


@cute.jit
def _words(vector: cute.Tensor) -> list:
    """16 bytes of shared memory as four registers."""
    rVector = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
    cute.autovec_copy(vector, rVector)
    rWords = cute.recast_tensor(rVector, Int32)
    return [rWords[i] for i in range(QUAD)]


@cute.jit
def _values(vector: cute.Tensor) -> list:
    """16 bytes of shared memory as eight FP32 values."""
    rVector = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
    cute.autovec_copy(vector, rVector)
    wide = rVector.load().to(Float32)
    return [wide[i] for i in range(VECTOR_WIDTH)]


@cute.jit
def _matrix_product(rSum: cute.Tensor, where: tuple, low: list, high: list, tokens: list) -> None:
    """Rows g (low) and g + 8 (high) times 8 tokens over 16 of the columns in these registers."""
    block, tile, step = where
    place = QUAD * tile
    sums = cute.arch.inline_ptx(
        _MATRIX + " {{$w0}, {$w1}, {$w2}, {$w3}}, {{$r0}, {$r1}, {$r2}, {$r3}}, "
        "{{$r4}, {$r5}}, {{$r6}, {$r7}, {$r8}, {$r9}};",
        write_only_types=[Float32] * QUAD,
        read_only_args=[
            low[2 * step],
            high[2 * step],
            low[2 * step + 1],
            high[2 * step + 1],
            tokens[2 * step],
            tokens[2 * step + 1],
            *(rSum[place + i, block] for i in range(QUAD)),
        ],
    )
    for i in cutlass.range_constexpr(QUAD):
        rSum[place + i, block] = sums[i]


@cute.jit
def load_quad(row: cute.Tensor, quad: Int32) -> list:
    """Four neighbouring FP32 values."""
    rQuad = cute.make_rmem_tensor((QUAD,), Float32)
    cute.autovec_copy(cute.local_tile(row, (QUAD,), (quad,)), rQuad)
    return [rQuad[j] for j in range(QUAD)]


@cute.jit
def store_quad(row: cute.Tensor, quad: Int32, values: list) -> None:
    """Write four neighbouring FP32 values."""
    rQuad = cute.make_rmem_tensor((QUAD,), Float32)
    for j in cutlass.range_constexpr(QUAD):
        rQuad[j] = values[j]
    cute.autovec_copy(rQuad, cute.local_tile(row, (QUAD,), (quad,)))


@cute.jit
def _remote_quad(place: cute.Pointer, peer: Int32) -> list:
    """Four FP32 values at the same place of another CTA of the cluster."""
    remote = cute.arch.map_dsmem_ptr(place, peer)
    return list(
        cute.arch.inline_ptx(
            "ld.shared::cluster.v4.f32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];",
            write_only_types=[Float32] * QUAD,
            read_only_args=[remote],
        )
    )


@cute.jit
def _situ(gate: Float32, up: Float32, beta: float, linear_beta: float) -> Float32:
    """Bounded SiLU of the gate times the bounded linear part."""
    sigmoid = 1.0 / (1.0 + cute.math.exp(-gate))
    bounded = linear_beta * cute.math.tanh(up * (1.0 / linear_beta))
    return beta * cute.math.tanh(gate * (1.0 / beta)) * sigmoid * bounded
