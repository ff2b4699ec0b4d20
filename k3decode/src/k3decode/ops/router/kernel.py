# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of expert selection: one CTA per row, its warps first and then one warp of it.

Each warp keeps the scores of consecutive experts in registers and takes its best ones, as many as
are asked for; the first warp takes the best of those. Every lane keeps its scores in falling
order, so a round is the largest first score of the warp and the lowest lane that has it. Lanes hold
experts in the order of their ids, and so do lists of taken experts that are equally good: equal
scores go to the lower id wherever it is.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.row_io import WARP_SIZE
from k3decode.ops.router.config import RouterConfig

__all__ = ["RouterKernel", "ordered", "sigmoid"]

_MANY_ROWS = 1 << 20
# Below the ordered form of every finite score; marks an expert that was taken.
_TAKEN = -(1 << 31)
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
        c = self.config
        chosen = cute.make_layout(
            (_MANY_ROWS, c.experts_per_token), stride=(c.experts_per_token, 1)
        )
        self.kernel(
            cute.make_tensor(
                logits,
                cute.make_layout((_MANY_ROWS, c.num_experts), stride=(logits_stride, 1)),
            ),
            cute.make_tensor(bias, cute.make_layout(c.num_experts)),
            cute.make_tensor(experts, chosen),
            cute.make_tensor(weights, chosen),
        ).launch(
            grid=[rows, 1, 1],
            block=[WARP_SIZE * c.warps, 1, 1],
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        mLogits: cute.Tensor,
        mBias: cute.Tensor,
        mExperts: cute.Tensor,
        mWeights: cute.Tensor,
    ):
        """One row."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        candidates = c.warps * c.experts_per_token
        sKeys = smem.allocate_tensor(Int32, cute.make_layout(candidates), 16)
        sIds = smem.allocate_tensor(Int32, cute.make_layout(candidates), 16)
        first = tid * c.experts_per_lane
        bias = [mBias[first + j] for j in range(c.experts_per_lane)]
        cute.arch.griddepcontrol_launch_dependents()
        # The bias never changes; the logits may still be written by the launch before.
        cute.arch.griddepcontrol_wait()
        logits = [mLogits[row, first + j] for j in range(c.experts_per_lane)]
        keys = [ordered(sigmoid(logits[j]) + bias[j]) for j in range(c.experts_per_lane)]
        self._choose(keys, first, sKeys, sIds, mLogits, mExperts, mWeights, row)

    @cute.jit
    def _choose(
        self,
        keys: list,
        first: Int32,
        sKeys: cute.Tensor,
        sIds: cute.Tensor,
        mLogits: cute.Tensor,
        mExperts: cute.Tensor,
        mWeights: cute.Tensor,
        row: Int32,
    ):
        """Choose a row's experts from the scores of all threads."""
        c = self.config
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        ids = [first + j for j in range(c.experts_per_lane)]
        keys, ids = _falling(keys, ids)
        key, mine = _take_best(keys, ids, c.experts_per_token)
        if cutlass.const_expr(c.warps > 1):
            if lane < c.experts_per_token:
                sKeys[warp * c.experts_per_token + lane] = key
                sIds[warp * c.experts_per_token + lane] = mine
            cute.arch.sync_threads()
        if warp == 0:
            if cutlass.const_expr(c.warps > 1):
                keys, ids = [], []
                last = c.warps * c.experts_per_token - 1
                for j in cutlass.range_constexpr(c.merged_per_lane):
                    place = lane * c.merged_per_lane + j
                    keys.append(sKeys[cutlass.min(place, last)] if place <= last else Int32(_TAKEN))
                    ids.append(sIds[cutlass.min(place, last)])
                key, mine = _take_best(keys, ids, c.experts_per_token)
            score = Float32(0.0)
            if lane < c.experts_per_token:
                score = sigmoid(mLogits[row, mine])
            total = cute.arch.warp_reduction(score, operator.add)
            if lane < c.experts_per_token:
                mExperts[row, lane] = mine
                mWeights[row, lane] = c.scaling_factor * score / (total + _SUM_FLOOR)


@cute.jit
def _falling(keys: list, ids: list):
    """Sort a lane's experts by falling score; equal ones stay in the order of their ids."""
    keys, ids = list(keys), list(ids)
    for end in cutlass.range_constexpr(len(keys) - 1, 0, -1):
        for j in cutlass.range_constexpr(end):
            swaps = keys[j + 1] > keys[j]
            high, low = (keys[j + 1] if swaps else keys[j]), (keys[j] if swaps else keys[j + 1])
            one, other = (ids[j + 1] if swaps else ids[j]), (ids[j] if swaps else ids[j + 1])
            keys[j], keys[j + 1], ids[j], ids[j + 1] = high, low, one, other
    return keys, ids


@cute.jit
def _take_best(keys: list, ids: list, count: cutlass.Constexpr):
    """Key and id of the warp's best experts, the best in lane 0, from lanes in falling order."""
    lane = cute.arch.lane_idx()
    keys, ids = list(keys), list(ids)
    best_key, mine = Int32(_TAKEN), Int32(0)
    for choice in cutlass.range_constexpr(count):
        best = cute.arch.warp_redux_sync(keys[0], "max")
        holders = cute.arch.vote_ballot_sync(keys[0] == best)
        holder = cute.arch.clz(cute.arch.brev(holders))
        expert = cute.arch.shuffle_sync(ids[0], holder)
        best_key = best if lane == choice else best_key
        mine = expert if lane == choice else mine
        moves = lane == holder
        for j in cutlass.range_constexpr(len(keys)):
            following = keys[j + 1] if j + 1 < len(keys) else Int32(_TAKEN)
            following_id = ids[j + 1] if j + 1 < len(ids) else ids[j]
            keys[j] = following if moves else keys[j]
            ids[j] = following_id if moves else ids[j]
    return best_key, mine


@cute.jit
def sigmoid(x: Float32) -> Float32:
    """1 / (1 + exp(-x)), through the exponential that cannot overflow."""
    small = cute.math.exp(-cute.math.absf(x))
    numerator = Float32(1.0) if x >= 0.0 else small
    return numerator / (1.0 + small)


@cute.jit
def ordered(x: Float32) -> Int32:
    """Signed integer with the order of the float: warp-wide maximum exists only for integers."""
    bits = x.bitcast(Int32)
    return bits ^ 0x7FFFFFFF if bits < 0 else bits
