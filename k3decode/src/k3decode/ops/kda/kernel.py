# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
# ruff: noqa: PLR5501
"""Device code of one KDA decode step: one or more CTAs per request and head, the state read once.

Each lane holds four key channels of `rows_per_warp` state rows in registers, so both products with
the state are a register sum and a warp reduction. The state is requested first and arrives while
the CTA convolves and computes the decay. `o = S' q` is taken as `(S dec) q + e (k . q)`, which is
the same sum in another order and lets both reductions run side by side.

A request may bring several tokens, of which all but the first are drafts. They are taken in order:
the state starts from the page of the last token that was accepted in the step before, and the state
after token t goes to page t, so that the next step can start from any of them. Taps are kept once,
in page 0, for all tokens that may be accepted.

Without drafts the CTAs of a cluster share a head's value rows. Each convolves its share of the
channels and computes its share of the decays for all of them; they meet twice, for these and for
the square of the output.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.cluster import store_to_peer
from k3decode.device.prefetch import (
    LINE_BYTES,
    prefetch_line,
    prefetch_span,
    read_for_prefetch,
)
from k3decode.device.row_io import WARP_SIZE, read_vector, row_tensor, write_vector
from k3decode.ops.kda.config import KdaConfig

__all__ = ["KdaKernel"]

_MANY_ROWS = 1 << 20
# Key channels per lane: 16 bytes of FP32 state.
_LANE_WIDTH = 4
# BF16 values in 16 bytes of the decay factor's row.
_GATE_WIDTH = 8


class KdaKernel:
    """Fixes the number of heads, the widths and the literals at compile time."""

    def __init__(self, config: KdaConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        projection: cute.Pointer,
        f_b: cute.Pointer,
        conv_weight: cute.Pointer,
        a_log: cute.Pointer,
        dt_bias: cute.Pointer,
        o_norm: cute.Pointer,
        slots: cute.Pointer,
        accepted: cute.Pointer,
        conv_state: cute.Pointer,
        memory: cute.Pointer,
        out: cute.Pointer,
        projection_stride: Int64,
        slot_stride: Int64,
        conv_stride: Int64,
        memory_stride: Int64,
        out_stride: Int64,
        requests: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `requests`; strides in elements, of rows, requests or state pages."""
        c = self.config
        qkv = 3 * c.channels
        self.kernel(
            row_tensor(projection, c.projection_width, projection_stride),
            cute.make_tensor(
                f_b, cute.make_layout((c.channels, c.gate_rank), stride=(c.gate_rank, 1))
            ),
            cute.make_tensor(
                conv_weight, cute.make_layout((qkv, c.conv_taps), stride=(c.conv_taps, 1))
            ),
            cute.make_tensor(a_log, cute.make_layout(c.heads)),
            cute.make_tensor(dt_bias, cute.make_layout(c.channels)),
            cute.make_tensor(o_norm, cute.make_layout(c.head_dim)),
            cute.make_tensor(
                slots, cute.make_layout((_MANY_ROWS, c.tokens), stride=(slot_stride, 1))
            ),
            cute.make_tensor(accepted, cute.make_layout(_MANY_ROWS)),
            cute.make_tensor(
                conv_state,
                cute.make_layout((_MANY_ROWS, c.window, qkv), stride=(conv_stride, qkv, 1)),
            ),
            cute.make_tensor(
                memory,
                cute.make_layout(
                    (_MANY_ROWS, c.channels, c.head_dim),
                    stride=(cute.assume(memory_stride, divby=_LANE_WIDTH), c.head_dim, 1),
                ),
            ),
            row_tensor(out, c.channels, out_stride),
        ).launch(
            grid=[c.split, c.heads, requests],
            block=[c.threads, 1, 1],
            cluster=[c.split, 1, 1] if c.split > 1 else None,
            min_blocks_per_mp=c.ctas_per_sm,
            # The driver's own choice; unset, the compiler would ask a GPU for it.
            preferred_smem_carveout=-1,
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        mProjection: cute.Tensor,
        mFb: cute.Tensor,
        mConvWeight: cute.Tensor,
        mALog: cute.Tensor,
        mDtBias: cute.Tensor,
        mONorm: cute.Tensor,
        mSlots: cute.Tensor,
        mAccepted: cute.Tensor,
        mConvState: cute.Tensor,
        mMemory: cute.Tensor,
        mOut: cute.Tensor,
    ):
        """One head of one request; a slot of zero or less is padding."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        part, head, request = cute.arch.block_idx()
        if cutlass.const_expr(c.split > 1):
            # Peers must have started before anything is stored into their shared memory.
            cute.arch.cluster_arrive_relaxed()
        smem = SmemAllocator()
        sQkv = smem.allocate_tensor(
            Float32,
            cute.make_layout((c.tokens, 3, c.head_dim), stride=(c.qkv_width, c.head_dim, 1)),
            16,
        )
        by_token = cute.make_layout((c.tokens, c.head_dim), stride=(c.head_dim, 1))
        sDecay = smem.allocate_tensor(Float32, by_token, 16)
        sOut = smem.allocate_tensor(Float32, by_token, 16)
        sBeta = smem.allocate_tensor(Float32, cute.make_layout(c.tokens), 16)
        sPage = smem.allocate_tensor(Int32, cute.make_layout(c.tokens), 16)
        sSquares = smem.allocate_tensor(Float32, cute.make_layout(c.split), 16)
        first_row = request * c.tokens
        first = part * c.cta_rows + cute.arch.warp_idx() * c.rows_per_warp
        self._prefetch_weights(mFb, mConvWeight, head, part, tid)
        if cutlass.const_expr(c.tokens == 1):
            # Slots stand before the step begins; what is read early only says what to bring, and
            # is read again below.
            early = read_for_prefetch(mSlots[request, None].iterator.toint())
            self._prefetch_state(mMemory, mConvState, early, head, part)
        elif tid == 0:
            # Everything about the state begins with the slot.
            prefetch_line(mSlots[request, None].iterator.toint())
        if cutlass.const_expr(c.split > 1):
            rFactor = self._read_factor(mFb, head, first)
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
        if cutlass.const_expr(c.split > 1):
            cute.arch.cluster_wait()
            # What does not depend on the slot is worked out while that is on its way.
            decays = self._decays(mProjection, rFactor, mALog, mDtBias, head, first, first_row)
        last_accepted = Int32(0)
        if cutlass.const_expr(c.tokens > 1):
            last_accepted = mAccepted[request] - 1
        gSlots = mSlots[request, None]
        window_slot = gSlots[0]
        slot = gSlots[last_accepted]
        if window_slot > 0 and slot > 0:
            rState = self._read_state(mMemory[slot, None, None], head * c.head_dim + first)
            gConv = mConvState[window_slot, None, None]
            self._convolve(
                mProjection, mConvWeight, gConv, sQkv, head, part, first_row, last_accepted
            )
            if cutlass.const_expr(c.split > 1):
                self._keep_decays(decays, sDecay, first)
            else:
                factor = self._read_factor(mFb, head, first)
                self._keep_decays(
                    self._decays(mProjection, factor, mALog, mDtBias, head, first, first_row),
                    sDecay,
                    first,
                )
            if tid < c.tokens:
                raw_beta = mProjection[first_row + tid, 4 * c.channels + c.gate_rank + head]
                sBeta[tid] = _sigmoid(raw_beta.to(Float32))
                sPage[tid] = gSlots[tid]
            # Warp t ends token t; what it reads for that is requested now.
            ending = cute.arch.warp_idx()
            last_row = first_row + cutlass.min(ending, c.tokens - 1)
            # Its lanes share the CTA's value rows.
            own = part * WARP_SIZE + cute.arch.lane_idx()
            rGate = self._read_gate(mProjection[last_row, None], head, own)
            rNorm = read_vector(mONorm, own, c.lane_rows)
            self._meet()
            for t in cutlass.range(c.tokens, unroll=1):
                self._delta_rule(
                    rState, sQkv[t, None, None], sDecay[t, None], sOut[t, None], sBeta[t], first
                )
                page = sPage[t]
                if page > 0:
                    self._write_state(rState, mMemory[page, None, None], head * c.head_dim + first)
            cute.arch.sync_threads()
            row = cutlass.min(ending, c.tokens - 1)
            rMixed = read_vector(sOut[row, None], own, c.lane_rows)
            square = cute.arch.warp_reduction(_sum(rMixed.load() * rMixed.load()), operator.add)
            if cutlass.const_expr(c.split > 1):
                square = self._sum_of_parts(sSquares, square, part, ending)
            if ending < c.tokens:
                gOut = mOut[last_row, None]
                self._gated_norm(
                    rMixed, rGate, rNorm, square, gOut, head * WARP_SIZE * c.split + own
                )
        else:
            if tid < c.cta_rows:
                for t in cutlass.range_constexpr(c.tokens):
                    mOut[first_row + t, head * c.head_dim + part * c.cta_rows + tid] = BFloat16(0.0)

    @cute.jit
    def _prefetch_weights(
        self, mFb: cute.Tensor, mConvWeight: cute.Tensor, head: Int32, part: Int32, tid: Int32
    ):
        """Bring the head's weights into the L2 cache while the launch before ends."""
        c = self.config
        channel = head * c.head_dim + part * c.cta_rows
        lines = c.cta_rows * c.gate_rank * 2 // LINE_BYTES
        factor = mFb[channel, None].iterator.toint()
        for first in cutlass.range_constexpr(0, lines, c.threads):
            if first + tid < lines:
                prefetch_line(factor + (first + tid) * LINE_BYTES)
        tap_lines = c.cta_rows * c.conv_taps * 4 // LINE_BYTES
        if tid < 3 * tap_lines:
            taps = mConvWeight[tid // tap_lines * c.channels + channel, None].iterator.toint()
            prefetch_line(taps + tid % tap_lines * LINE_BYTES)

    @cute.jit
    def _prefetch_state(
        self,
        mMemory: cute.Tensor,
        mConvState: cute.Tensor,
        slot: Int32,
        head: Int32,
        part: Int32,
    ):
        """Bring a CTA's part of a state and of its taps."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        first = head * c.head_dim + part * c.cta_rows
        if slot > 0:
            if tid == 0:
                # Its rows lie one behind the other.
                place = mMemory[slot, first, None].iterator.toint()
                prefetch_span(place, c.cta_rows * c.head_dim * 4)
            # Pages of taps may start anywhere, so what they hold may begin within a line.
            line_taps = LINE_BYTES // 2
            lines = c.cta_rows // line_taps + 1
            if tid < 3 * (c.conv_taps - 1) * lines:
                row = tid // lines
                channel = row % 3 * c.channels + first
                tap = cutlass.min(tid % lines * line_taps, c.cta_rows - 1)
                prefetch_line(
                    mConvState[slot, row // 3, None].iterator.toint() + (channel + tap) * 2
                )

    @cute.jit
    def _read_state(self, gMemory: cute.Tensor, first: Int32):
        """This lane's four key channels of each of the warp's state rows."""
        return [
            read_vector(gMemory[first + i, None], cute.arch.lane_idx(), _LANE_WIDTH)
            for i in range(self.config.rows_per_warp)
        ]

    @cute.jit
    def _write_state(self, rState: list, gMemory: cute.Tensor, first: Int32):
        """The counterpart of `_read_state`."""
        for i in cutlass.range_constexpr(self.config.rows_per_warp):
            write_vector(rState[i], gMemory[first + i, None], cute.arch.lane_idx(), _LANE_WIDTH)

    @cute.jit
    def _meet(self):
        """Wait for all warps of the head."""
        if cutlass.const_expr(self.config.split > 1):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()

    @cute.jit
    def _share(self, place: cute.Pointer, value: Float32):
        """Store a value in the shared memory of every CTA of the head."""
        for peer in cutlass.range_constexpr(self.config.split):
            store_to_peer(place.toint(), Int32(peer), value)

    @cute.jit
    def _sum_of_parts(self, sSquares: cute.Tensor, square: Float32, part: Int32, warp: Int32):
        """Sum over the CTAs of the head, in their order."""
        c = self.config
        lane = cute.arch.lane_idx()
        if warp == 0 and lane < c.split:
            store_to_peer(sSquares.iterator.toint() + 4 * part, lane, square)
        self._meet()
        total = sSquares[0]
        for other in cutlass.range_constexpr(1, c.split):
            total = total + sSquares[other]
        return total

    @cute.jit
    def _convolve(
        self,
        mProjection: cute.Tensor,
        mConvWeight: cute.Tensor,
        gConv: cute.Tensor,
        sQkv: cute.Tensor,
        head: Int32,
        part: Int32,
        first_row: Int32,
        last_accepted: Int32,
    ):
        """One thread per channel: convolve all tokens, activate, move the stored taps on."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        stored = c.conv_taps - 1
        if tid < 3 * c.cta_rows:
            kind = tid // c.cta_rows
            column = part * c.cta_rows + tid % c.cta_rows
            channel = kind * c.channels + head * c.head_dim + column
            weight = read_vector(mConvWeight[channel, None], 0, c.conv_taps)
            window = [gConv[last_accepted + j, channel] for j in range(stored)]
            window += [mProjection[first_row + t, channel] for t in range(c.tokens)]
            for t in cutlass.range_constexpr(c.tokens):
                mixed = Float32(0.0)
                for j in cutlass.range_constexpr(c.conv_taps):
                    mixed = mixed + weight[j] * window[t + j].to(Float32)
                active = mixed * _sigmoid(mixed)
                if cutlass.const_expr(c.split > 1):
                    place = t * c.qkv_width + kind * c.head_dim + column
                    self._share(sQkv.iterator + place, active)
                else:
                    sQkv[t, kind, column] = active
            for j in cutlass.range_constexpr(c.window):
                gConv[j, channel] = window[j + 1]

    @cute.jit
    def _read_factor(self, mFb: cute.Tensor, head: Int32, first: Int32):
        """Half a warp per channel: rows of the decay gate's second factor."""
        c = self.config
        half = WARP_SIZE // 2
        lane = cute.arch.lane_idx()
        channel = head * c.head_dim + first + lane // half
        return [
            read_vector(mFb[channel + 2 * i, None], lane % half, _GATE_WIDTH)
            for i in range(c.rows_per_warp // 2)
        ]

    @cute.jit
    def _decays(
        self,
        mProjection: cute.Tensor,
        rFactor: list,
        mALog: cute.Tensor,
        mDtBias: cute.Tensor,
        head: Int32,
        first: Int32,
        first_row: Int32,
    ):
        """Half a warp per channel: second factor of the decay gate, then the bounded decay.

        One channel after the other, for each that of all tokens.
        """
        c = self.config
        lane = cute.arch.lane_idx()
        half = WARP_SIZE // 2
        # Requested before anything is computed: a load inside a branch would wait alone.
        rate = cute.math.exp(mALog[head])
        bias = []
        for i in cutlass.range_constexpr(c.rows_per_warp // 2):
            bias.append(mDtBias[head * c.head_dim + first + 2 * i + lane // half])
        inputs = []
        for t in cutlass.range_constexpr(c.tokens):
            gate_in = cute.local_tile(
                mProjection[first_row + t, None],
                (c.gate_rank,),
                (4 * c.channels // c.gate_rank,),
            )
            inputs.append(read_vector(gate_in, lane % half, _GATE_WIDTH))
        decays = []
        for i in cutlass.range_constexpr(c.rows_per_warp // 2):
            weight = rFactor[i].load().to(Float32)
            for t in cutlass.range_constexpr(c.tokens):
                raw = (weight * inputs[t].load().to(Float32)).reduce(cute.ReductionOp.ADD, 0.0, 0)
                raw = cute.arch.warp_reduction(raw, operator.add, threads_in_group=half)
                shifted = raw.to(BFloat16).to(Float32) + bias[i]
                gate = _sigmoid(rate * shifted)
                decays.append(cute.math.exp(c.gate_lower_bound * gate))
        return decays

    @cute.jit
    def _keep_decays(self, decays: list, sDecay: cute.Tensor, first: Int32):
        """Put the decays where all warps of the head find them."""
        c = self.config
        lane = cute.arch.lane_idx()
        half = WARP_SIZE // 2
        if lane % half == 0:
            for i in cutlass.range_constexpr(c.rows_per_warp // 2):
                column = first + 2 * i + lane // half
                for t in cutlass.range_constexpr(c.tokens):
                    if cutlass.const_expr(c.split > 1):
                        self._share(sDecay.iterator + column, decays[i * c.tokens + t])
                    else:
                        sDecay[t, column] = decays[i * c.tokens + t]

    @cute.jit
    def _delta_rule(
        self,
        rState: list,
        sQkv: cute.Tensor,
        sDecay: cute.Tensor,
        sOut: cute.Tensor,
        beta: Float32,
        first: Int32,
    ):
        """Decay, read with the key, update, read with the query: one token, in registers."""
        c = self.config
        lane = cute.arch.lane_idx()
        query = read_vector(sQkv[0, None], lane, _LANE_WIDTH).load()
        key = read_vector(sQkv[1, None], lane, _LANE_WIDTH).load()
        decay = read_vector(sDecay, lane, _LANE_WIDTH).load()
        query = query * (_inverse_length(query, c.qk_norm_eps) * c.head_dim**-0.5)
        key = key * _inverse_length(key, c.qk_norm_eps)
        overlap = cute.arch.warp_reduction(_sum(key * query), operator.add)
        products = []
        for i in cutlass.range_constexpr(c.rows_per_warp):
            rState[i].store(rState[i].load() * decay)
            products.append(_sum(rState[i].load() * key))
        for i in cutlass.range_constexpr(c.rows_per_warp):
            products.append(_sum(rState[i].load() * query))
        # The lower half of the lanes gets the key's products, the upper half the query's.
        mine = _sum_of_lanes(products, lane)
        half = WARP_SIZE // 2
        spread = half // c.rows_per_warp
        row = first + lane % half // spread
        read = cute.arch.shuffle_sync(mine, lane % half)
        error = (sQkv[2, row] - read) * beta
        if lane >= half and lane % spread == 0:
            sOut[row] = mine + error * overlap
        for i in cutlass.range_constexpr(c.rows_per_warp):
            shared = cute.arch.shuffle_sync(error, i * spread)
            rState[i].store(rState[i].load() + key * shared)

    @cute.jit
    def _read_gate(self, gProjection: cute.Tensor, head: Int32, own: Int32):
        """This lane's channels of the head's output gate."""
        c = self.config
        first = (3 * c.channels + head * c.head_dim) // c.lane_rows
        return read_vector(gProjection, first + own, c.lane_rows)

    @cute.jit
    def _gated_norm(
        self,
        rMixed: cute.Tensor,
        rGate: cute.Tensor,
        rNorm: cute.Tensor,
        square: Float32,
        gOut: cute.Tensor,
        place: Int32,
    ):
        """One warp: normalise the CTA's outputs, weight them, gate them."""
        c = self.config
        scale = cute.math.rsqrt(square * (1.0 / c.head_dim) + c.norm_eps)
        rOut = cute.make_rmem_tensor((c.lane_rows,), BFloat16)
        normed = rMixed.load() * scale * rNorm.load()
        for j in cutlass.range_constexpr(c.lane_rows):
            rOut[j] = (normed[j] * _sigmoid(rGate[j].to(Float32))).to(BFloat16)
        write_vector(rOut, gOut, place, c.lane_rows)


@cute.jit
def _sigmoid(x: Float32) -> Float32:
    """1 / (1 + exp(-x)); exp(-x) may become infinite, the result then is zero."""
    return 1.0 / (1.0 + cute.math.exp(-x))


@cute.jit
def _sum(x: cute.TensorSSA) -> Float32:
    """Sum of a lane's values."""
    return x.reduce(cute.ReductionOp.ADD, 0.0, 0)


@cute.jit
def _sum_of_lanes(values: list, lane: Int32) -> Float32:
    """Sum each of n values, a power of two, over the warp; lane l gets the sum of value l n / 32.

    Each step halves the values instead of summing all of them in all lanes: 16 exchanges, not 80,
    for 16 values.
    """
    offset = WARP_SIZE // 2
    while cutlass.const_expr(len(values) > 1):
        half = len(values) // 2
        upper = (lane & offset) != 0
        kept = []
        for j in cutlass.range_constexpr(half):
            keep = values[half + j] if upper else values[j]
            give = values[j] if upper else values[half + j]
            kept.append(keep + cute.arch.shuffle_sync_bfly(give, offset))
        values = kept
        offset = offset // 2
    total = values[0]
    while cutlass.const_expr(offset > 0):
        total = total + cute.arch.shuffle_sync_bfly(total, offset)
        offset = offset // 2
    return total


@cute.jit
def _inverse_length(x: cute.TensorSSA, eps: float) -> Float32:
    """1 / sqrt(sum of squares + eps) over the warp."""
    return cute.math.rsqrt(cute.arch.warp_reduction(_sum(x * x), operator.add) + eps)
