# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
# ruff: noqa: PLR5501
"""Device code of one KDA decode step: one CTA per row and head, the state read and written once.

Each lane holds four key channels of `rows_per_warp` state rows in registers, so both products with
the state are a register sum and a warp reduction. The state is requested first and arrives while
the CTA convolves and computes the decay. `o = S' q` is taken as `(S dec) q + e (k . q)`, which is
the same sum in another order and lets both reductions run side by side.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

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
        conv_state: cute.Pointer,
        memory: cute.Pointer,
        out: cute.Pointer,
        projection_stride: Int64,
        conv_stride: Int64,
        memory_stride: Int64,
        out_stride: Int64,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` rows; strides in elements, of rows or of state pages."""
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
            cute.make_tensor(slots, cute.make_layout(_MANY_ROWS)),
            cute.make_tensor(
                conv_state,
                cute.make_layout((_MANY_ROWS, c.conv_taps - 1, qkv), stride=(conv_stride, qkv, 1)),
            ),
            cute.make_tensor(
                memory,
                cute.make_layout(
                    (_MANY_ROWS, c.channels, c.head_dim),
                    stride=(cute.assume(memory_stride, divby=_LANE_WIDTH), c.head_dim, 1),
                ),
            ),
            row_tensor(out, c.channels, out_stride),
        ).launch(grid=[c.heads, rows, 1], block=[c.threads, 1, 1], stream=stream)

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
        mConvState: cute.Tensor,
        mMemory: cute.Tensor,
        mOut: cute.Tensor,
    ):
        """One head of one row; a slot of zero or less is padding."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        head, row, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        sQkv = smem.allocate_tensor(
            Float32, cute.make_layout((3, c.head_dim), stride=(c.head_dim, 1)), 16
        )
        sDecay = smem.allocate_tensor(Float32, cute.make_layout(c.head_dim), 16)
        sOut = smem.allocate_tensor(Float32, cute.make_layout(c.head_dim), 16)
        gProjection = mProjection[row, None]
        gOut = mOut[row, None]
        slot = mSlots[row]
        if slot > 0:
            gMemory = mMemory[slot, None, None]
            gConv = mConvState[slot, None, None]
            rState = self._read_state(gMemory, head)
            self._convolve(gProjection, mConvWeight, gConv, sQkv, head, tid)
            self._decay(gProjection, mFb, mALog, mDtBias, sDecay, head)
            cute.arch.sync_threads()
            beta = _sigmoid(gProjection[4 * c.channels + c.gate_rank + head].to(Float32))
            self._delta_rule(rState, gMemory, sQkv, sDecay, sOut, beta, head)
            cute.arch.sync_threads()
            if cute.arch.warp_idx() == 0:
                self._gated_norm(gProjection, mONorm, sOut, gOut, head)
        else:
            if tid < c.head_dim:
                gOut[head * c.head_dim + tid] = BFloat16(0.0)

    @cute.jit
    def _read_state(self, gMemory: cute.Tensor, head: Int32):
        """This lane's four key channels of each of the warp's state rows."""
        c = self.config
        first = head * c.head_dim + cute.arch.warp_idx() * c.rows_per_warp
        return [
            read_vector(gMemory[first + i, None], cute.arch.lane_idx(), _LANE_WIDTH)
            for i in range(c.rows_per_warp)
        ]

    @cute.jit
    def _convolve(
        self,
        gProjection: cute.Tensor,
        mConvWeight: cute.Tensor,
        gConv: cute.Tensor,
        sQkv: cute.Tensor,
        head: Int32,
        tid: Int32,
    ):
        """One thread per channel: convolve, activate, move the stored taps on by one."""
        c = self.config
        if tid < c.qkv_width:
            part = tid // c.head_dim
            column = tid % c.head_dim
            channel = part * c.channels + head * c.head_dim + column
            weight = read_vector(mConvWeight[channel, None], 0, c.conv_taps)
            window = [gConv[j, channel] for j in range(c.conv_taps - 1)]
            window.append(gProjection[channel])
            mixed = Float32(0.0)
            for j in cutlass.range_constexpr(c.conv_taps):
                mixed = mixed + weight[j] * window[j].to(Float32)
            for j in cutlass.range_constexpr(c.conv_taps - 1):
                gConv[j, channel] = window[j + 1]
            sQkv[part, column] = mixed * _sigmoid(mixed)

    @cute.jit
    def _decay(
        self,
        gProjection: cute.Tensor,
        mFb: cute.Tensor,
        mALog: cute.Tensor,
        mDtBias: cute.Tensor,
        sDecay: cute.Tensor,
        head: Int32,
    ):
        """Half a warp per channel: second factor of the decay gate, then the bounded decay."""
        c = self.config
        lane = cute.arch.lane_idx()
        half = WARP_SIZE // 2
        gate_in = cute.local_tile(gProjection, (c.gate_rank,), (4 * c.channels // c.gate_rank,))
        factor = read_vector(gate_in, lane % half, _GATE_WIDTH).load().to(Float32)
        for i in cutlass.range_constexpr(c.rows_per_warp // 2):
            column = cute.arch.warp_idx() * c.rows_per_warp + 2 * i + lane // half
            channel = head * c.head_dim + column
            weight = read_vector(mFb[channel, None], lane % half, _GATE_WIDTH).load().to(Float32)
            raw = (weight * factor).reduce(cute.ReductionOp.ADD, 0.0, 0)
            raw = cute.arch.warp_reduction(raw, operator.add, threads_in_group=half)
            if lane % half == 0:
                shifted = raw.to(BFloat16).to(Float32) + mDtBias[channel]
                gate = _sigmoid(cute.math.exp(mALog[head]) * shifted)
                sDecay[column] = cute.math.exp(c.gate_lower_bound * gate)

    @cute.jit
    def _delta_rule(
        self,
        rState: list,
        gMemory: cute.Tensor,
        sQkv: cute.Tensor,
        sDecay: cute.Tensor,
        sOut: cute.Tensor,
        beta: Float32,
        head: Int32,
    ):
        """Decay, read with the key, update, read with the query."""
        c = self.config
        lane = cute.arch.lane_idx()
        first = cute.arch.warp_idx() * c.rows_per_warp
        query = read_vector(sQkv[0, None], lane, _LANE_WIDTH).load()
        key = read_vector(sQkv[1, None], lane, _LANE_WIDTH).load()
        decay = read_vector(sDecay, lane, _LANE_WIDTH).load()
        query = query * (_inverse_length(query, c.qk_norm_eps) * c.head_dim**-0.5)
        key = key * _inverse_length(key, c.qk_norm_eps)
        overlap = cute.arch.warp_reduction(_sum(key * query), operator.add)
        for i in cutlass.range_constexpr(c.rows_per_warp):
            state = rState[i].load() * decay
            read = cute.arch.warp_reduction(_sum(state * key), operator.add)
            before = cute.arch.warp_reduction(_sum(state * query), operator.add)
            error = (sQkv[2, first + i] - read) * beta
            rState[i].store(state + key * error)
            write_vector(rState[i], gMemory[head * c.head_dim + first + i, None], lane, _LANE_WIDTH)
            if lane == 0:
                sOut[first + i] = before + error * overlap

    @cute.jit
    def _gated_norm(
        self,
        gProjection: cute.Tensor,
        mONorm: cute.Tensor,
        sOut: cute.Tensor,
        gOut: cute.Tensor,
        head: Int32,
    ):
        """One warp: normalise the head's 128 outputs, weight them, gate them."""
        c = self.config
        lane = cute.arch.lane_idx()
        mixed = read_vector(sOut, lane, _LANE_WIDTH).load()
        square = cute.arch.warp_reduction(_sum(mixed * mixed), operator.add)
        scale = cute.math.rsqrt(square * (1.0 / c.head_dim) + c.norm_eps)
        weight = read_vector(mONorm, lane, _LANE_WIDTH).load()
        column = head * WARP_SIZE + lane
        raw = read_vector(gProjection, 3 * c.channels // _LANE_WIDTH + column, _LANE_WIDTH)
        rOut = cute.make_rmem_tensor((_LANE_WIDTH,), BFloat16)
        normed = mixed * scale * weight
        for j in cutlass.range_constexpr(_LANE_WIDTH):
            rOut[j] = (normed[j] * _sigmoid(raw[j].to(Float32))).to(BFloat16)
        write_vector(rOut, gOut, column, _LANE_WIDTH)


@cute.jit
def _sigmoid(x: Float32) -> Float32:
    """1 / (1 + exp(-x)); exp(-x) may become infinite, the result then is zero."""
    return 1.0 / (1.0 + cute.math.exp(-x))


@cute.jit
def _sum(x: cute.TensorSSA) -> Float32:
    """Sum of a lane's values."""
    return x.reduce(cute.ReductionOp.ADD, 0.0, 0)


@cute.jit
def _inverse_length(x: cute.TensorSSA, eps: float) -> Float32:
    """1 / sqrt(sum of squares + eps) over the warp."""
    return cute.math.rsqrt(cute.arch.warp_reduction(_sum(x * x), operator.add) + eps)
