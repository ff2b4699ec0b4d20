# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of expert selection: one warp per row, all scores in registers.

Lane l keeps experts l, l + 32, ... Each round takes the largest biased score of the warp and then
the smallest expert id that has it, so equal scores go to the lower id whatever lane holds them.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Float32, Int32, Int64, cute

from k3decode.device.row_io import WARP_SIZE
from k3decode.ops.router.config import RouterConfig

__all__ = ["RouterKernel"]

_MANY_ROWS = 1 << 20
# Below the ordered form of every finite score; marks an expert that was taken.
_TAKEN = -(1 << 31)
_NO_EXPERT = 1 << 30
# Keeps the renormalisation finite when every chosen score underflows.
_SUM_FLOOR = 1e-20


class RouterKernel:
    """Fixes the number of experts and of choices at compile time."""

    def __init__(self, config: RouterConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        logits: cute.Pointer,
        bias: cute.Pointer,
        experts: cute.Pointer,
        weights: cute.Pointer,
        logits_stride: Int64,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` rows; the outputs are dense."""
        chosen = cute.make_layout(
            (_MANY_ROWS, self.config.experts_per_token),
            stride=(self.config.experts_per_token, 1),
        )
        self.kernel(
            cute.make_tensor(
                logits,
                cute.make_layout((_MANY_ROWS, self.config.num_experts), stride=(logits_stride, 1)),
            ),
            cute.make_tensor(bias, cute.make_layout(self.config.num_experts)),
            cute.make_tensor(experts, chosen),
            cute.make_tensor(weights, chosen),
        ).launch(grid=[rows, 1, 1], block=[WARP_SIZE, 1, 1], stream=stream)

    @cute.kernel
    def kernel(
        self,
        mLogits: cute.Tensor,
        mBias: cute.Tensor,
        mExperts: cute.Tensor,
        mWeights: cute.Tensor,
    ):
        """One row."""
        config = self.config
        row, _, _ = cute.arch.block_idx()
        lane = cute.arch.lane_idx()
        keys = []
        for j in cutlass.range_constexpr(config.experts_per_lane):
            expert = lane + WARP_SIZE * j
            keys.append(_ordered(_sigmoid(mLogits[row, expert]) + mBias[expert]))

        mine = Int32(0)
        for choice in cutlass.range_constexpr(config.experts_per_token):
            best = keys[0]
            for j in cutlass.range_constexpr(1, config.experts_per_lane):
                best = cutlass.max(best, keys[j])
            best = cute.arch.warp_redux_sync(best, "max")
            candidate = Int32(_NO_EXPERT)
            # Downwards, so that the lowest id of this lane is assigned last.
            for j in cutlass.range_constexpr(config.experts_per_lane - 1, -1, -1):
                candidate = lane + WARP_SIZE * j if keys[j] == best else candidate
            expert = cute.arch.warp_redux_sync(candidate, "min")
            for j in cutlass.range_constexpr(config.experts_per_lane):
                keys[j] = Int32(_TAKEN) if lane + WARP_SIZE * j == expert else keys[j]
            mine = expert if lane == choice else mine

        score = Float32(0.0)
        if lane < config.experts_per_token:
            score = _sigmoid(mLogits[row, mine])
        total = cute.arch.warp_reduction(score, operator.add)
        if lane < config.experts_per_token:
            mExperts[row, lane] = mine
            mWeights[row, lane] = config.scaling_factor * score / (total + _SUM_FLOOR)


@cute.jit
def _sigmoid(x: Float32) -> Float32:
    """1 / (1 + exp(-x)), through the exponential that cannot overflow."""
    small = cute.math.exp(-cute.math.absf(x))
    numerator = Float32(1.0) if x >= 0.0 else small
    return numerator / (1.0 + small)


@cute.jit
def _ordered(x: Float32) -> Int32:
    """Signed integer with the order of the float: warp-wide maximum exists only for integers."""
    bits = x.bitcast(Int32)
    return bits ^ 0x7FFFFFFF if bits < 0 else bits
