# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of expert selection: one CTA per row.

Every thread keeps the scores of a few experts. The best experts of 32 groups give a score that as
many experts as are asked for reach at least, and few others do. Those that reach it, the
candidates, are counted against each other by one warp: an expert's rank is how many come before
it, by score and then by id.

Where more reach it than there is room for, because scores are equal, each warp takes its best ones
in rounds, and the first warp takes the best of those. Every lane keeps its scores in falling order,
so a round is the largest first score of the warp and the lowest lane that has it. Lanes hold
experts in the order of their ids, and so do lists of taken experts that are equally good.
"""

import operator

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.row_io import WARP_SIZE, read_vector
from k3decode.ops.router.config import RouterConfig

__all__ = ["RouterKernel", "ordered", "sigmoid"]

_MANY_ROWS = 1 << 20
# Below the ordered form of every finite score; marks an expert that was taken.
_TAKEN = -(1 << 31)
_CANDIDATES = 64
# Candidates compared at a time.
_COMPARED = 8
# Below every candidate.
_NOBODY = -(1 << 63)
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
        memory = self._memory(SmemAllocator())
        first = tid * c.experts_per_lane
        bias = [mBias[first + j] for j in range(c.experts_per_lane)]
        cute.arch.griddepcontrol_launch_dependents()
        # The bias never changes; the logits may still be written by the launch before.
        cute.arch.griddepcontrol_wait()
        logits = [mLogits[row, first + j] for j in range(c.experts_per_lane)]
        keys = [ordered(sigmoid(logits[j]) + bias[j]) for j in range(c.experts_per_lane)]
        self._select(keys, first, memory, mLogits[row, None], mExperts, mWeights, row)

    @cute.jit
    def _memory(self, smem: SmemAllocator):
        """Shared memory of a selection: bests of groups, candidates, their count, taken ones."""
        c = self.config
        taken = c.warps * c.experts_per_token
        sTops = smem.allocate_tensor(
            Int32, cute.make_layout((c.warps, WARP_SIZE), stride=(WARP_SIZE, 1)), 16
        )
        sCandidates = smem.allocate_tensor(Int64, cute.make_layout(_CANDIDATES), 16)
        sCount = smem.allocate_tensor(Int32, cute.make_layout(c.warps), 16)
        sKeys = smem.allocate_tensor(Int32, cute.make_layout(taken), 16)
        sIds = smem.allocate_tensor(Int32, cute.make_layout(taken), 16)
        return sTops, sCandidates, sCount, sKeys, sIds

    @cute.jit
    def _select(
        self,
        keys: list,
        first: Int32,
        memory: tuple,
        logits: cute.Tensor,
        mExperts: cute.Tensor,
        mWeights: cute.Tensor,
        row: Int32,
    ):
        """All threads of a CTA: choose a row's experts by their keys, and write them.

        `logits` is the whole row, of which each thread has the keys from expert `first` on; it is
        read after a barrier.
        """
        sTops, sCandidates, sCount, sKeys, sIds = memory
        least = self._least_score(keys, sTops, sCandidates)
        total = self._gather(keys, least, first, sCandidates, sCount)
        if total <= _CANDIDATES:
            if cute.arch.warp_idx() == 0:
                mine = self._by_rank(sCandidates, sIds, total)
                self._write(mine, logits, mExperts, mWeights, row)
        else:
            self._choose(keys, first, sKeys, sIds, logits, mExperts, mWeights, row)

    @cute.jit
    def _least_score(self, keys: list, sTops: cute.Tensor, sCandidates: cute.Tensor) -> Int32:
        """A score that as many experts as are asked for reach: the best of 32 groups do."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        top = keys[0]
        for j in cutlass.range_constexpr(1, c.experts_per_lane):
            top = cutlass.max(top, keys[j])
        sTops[warp, lane] = top
        for slot in cutlass.range(tid, _CANDIDATES, WARP_SIZE * c.warps):
            sCandidates[slot] = Int64(_NOBODY)
        cute.arch.sync_threads()
        # A group is a lane of all warps; every warp works the same out.
        best = sTops[0, lane]
        for w in cutlass.range_constexpr(1, c.warps):
            best = cutlass.max(best, sTops[w, lane])
        reached = Int32(0)
        for other in cutlass.range_constexpr(WARP_SIZE):
            reached += Int32(1) if cute.arch.shuffle_sync(best, other) >= best else Int32(0)
        enough = best if reached >= c.experts_per_token else Int32(_TAKEN)
        return cute.arch.warp_redux_sync(enough, "max")

    @cute.jit
    def _gather(
        self,
        keys: list,
        least: Int32,
        first: Int32,
        sCandidates: cute.Tensor,
        sCount: cute.Tensor,
    ) -> Int32:
        """Put all that reach the score into one list, by warp; returns how many they are."""
        c = self.config
        lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
        found = Int32(0)
        places = []
        for j in cutlass.range_constexpr(c.experts_per_lane):
            holders = cute.arch.vote_ballot_sync(keys[j] >= least)
            places.append(found + cute.arch.popc(holders & ((Int32(1) << lane) - 1)))
            found += cute.arch.popc(holders)
        if lane == 0:
            sCount[warp] = found
        cute.arch.sync_threads()
        before, total = Int32(0), Int32(0)
        for w in cutlass.range_constexpr(c.warps):
            before += sCount[w] if w < warp else Int32(0)
            total += sCount[w]
        for j in cutlass.range_constexpr(c.experts_per_lane):
            place = before + places[j]
            if keys[j] >= least and place < _CANDIDATES:
                # The lower id is the larger number.
                sCandidates[place] = (Int64(keys[j]) << 32) + (c.num_experts - first - j)
        cute.arch.sync_threads()
        return total

    @cute.jit
    def _by_rank(self, sCandidates: cute.Tensor, sIds: cute.Tensor, total: Int32) -> Int32:
        """One warp: count for each candidate who comes before it; lane i gets the id of rank i."""
        c = self.config
        lane = cute.arch.lane_idx()
        for slot in cutlass.range(lane, total, WARP_SIZE):
            mine = sCandidates[slot]
            rank = Int32(0)
            for block in cutlass.range((total + _COMPARED - 1) // _COMPARED):
                others = read_vector(sCandidates, block, _COMPARED)
                for j in cutlass.range_constexpr(_COMPARED):
                    rank += Int32(1) if others[j] > mine else Int32(0)
            if rank < c.experts_per_token:
                sIds[rank] = c.num_experts - Int32(mine & 0xFFFFFFFF)
        cute.arch.sync_warp()
        return sIds[cutlass.min(lane, c.experts_per_token - 1)]

    @cute.jit
    def _write(
        self,
        mine: Int32,
        logits: cute.Tensor,
        mExperts: cute.Tensor,
        mWeights: cute.Tensor,
        row: Int32,
    ):
        """One warp: lane i writes choice i and its share of the scores."""
        c = self.config
        lane = cute.arch.lane_idx()
        score = Float32(0.0)
        if lane < c.experts_per_token:
            score = sigmoid(logits[mine])
        total = cute.arch.warp_reduction(score, operator.add)
        if lane < c.experts_per_token:
            mExperts[row, lane] = mine
            mWeights[row, lane] = c.scaling_factor * score / (total + _SUM_FLOOR)

    @cute.jit
    def _choose(
        self,
        keys: list,
        first: Int32,
        sKeys: cute.Tensor,
        sIds: cute.Tensor,
        logits: cute.Tensor,
        mExperts: cute.Tensor,
        mWeights: cute.Tensor,
        row: Int32,
    ):
        """Choose a row's experts in rounds, whatever the scores are."""
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
            self._write(mine, logits, mExperts, mWeights, row)


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
