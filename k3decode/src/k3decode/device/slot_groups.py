# mypy: ignore-errors
"""Token slots sorted by expert, worked out by every CTA for itself in shared memory.

A slot is one choice of one row. A bit per row and expert says who chose whom, so an expert's slots
come in the order of the rows whatever thread comes first, and nothing is asked of the host. Experts
come in the order of the first slots that chose them. An id outside the experts marks a slot that
nobody serves.
"""

import cutlass
from cutlass import Float32, Int32, Uint8, cute
from cutlass.memory import SmemAllocator

from k3decode.device.row_io import WARP_SIZE

__all__ = ["SlotGroups", "clear_slots", "group_slots"]

# Rows whose bits fit the two words of an expert.
_WORD_ROWS = 32
_COUNT_BITS = 16
_FULL_WARP = 0xFFFFFFFF
# Above every id.
_NO_EXPERT = 1 << 20


class SlotGroups:
    """Shared memory of one CTA.

    `scratch` is shared memory for three integers per expert; `group_slots` is done with it when it
    returns.
    """

    def __init__(
        self,
        smem: SmemAllocator,
        scratch: cute.Pointer,
        *,
        num_experts: int,
        top_k: int,
        max_slots: int,
        threads: int,
    ) -> None:
        def integers(count: int) -> cute.Tensor:
            return smem.allocate_tensor(Int32, cute.make_layout(count), 16)

        most = min(num_experts, max_slots)
        self.num_experts = num_experts
        self.top_k = top_k
        self.max_slots = max_slots
        self.threads = threads
        found = cute.recast_ptr(scratch, dtype=Int32)
        self.sRows = cute.make_tensor(found, cute.make_layout(2 * num_experts))
        self.sFirstOf = cute.make_tensor(found + 2 * num_experts, cute.make_layout(num_experts))
        self.sTotals = integers(threads // WARP_SIZE)
        self.sExpert = integers(most)
        """Ids of the chosen experts."""
        self.sFirst = integers(most + 1)
        """First position of each chosen expert, and the end of the last."""
        self.sSlot = integers(max_slots)
        """Slot at each position."""
        self.sIsServed = smem.allocate_tensor(Uint8, cute.make_layout(max_slots), 16)
        """Whether a slot's id is an expert's, for each slot."""
        self.sShare = smem.allocate_tensor(Float32, cute.make_layout(max_slots), 16)
        """Weight of the slot at each position."""


@cute.jit
def clear_slots(groups: cutlass.Constexpr, rows: Int32):
    """Make room for `group_slots`; needs no ids."""
    g, sRows = groups, groups.sRows
    tid, _, _ = cute.arch.thread_idx()
    if rows * g.top_k > WARP_SIZE:
        for i in cutlass.range_constexpr(-(-2 * g.num_experts // g.threads)):
            word = tid + i * g.threads
            if word < 2 * g.num_experts:
                sRows[word] = 0


@cute.jit
def group_slots(
    groups: cutlass.Constexpr, mExperts: cute.Tensor, mShares: cute.Tensor, rows: Int32
) -> Int32:
    """Fill the groups from ids and weights [rows * top_k], after `clear_slots`.

    Returns the number of chosen experts.
    """
    g = groups
    tid, _, _ = cute.arch.thread_idx()
    slots = rows * g.top_k
    chosen = Int32(0)
    if slots <= WARP_SIZE:
        if tid < WARP_SIZE:
            _group_few(g, mExperts, mShares, slots)
        cute.arch.sync_threads()
        chosen = g.sTotals[0]
    else:
        chosen = _group_many(g, mExperts, mShares, slots)
    return chosen


@cute.jit
def _group_few(
    groups: cutlass.Constexpr,
    mExperts: cute.Tensor,
    mShares: cute.Tensor,
    slots: Int32,
):
    """One warp, a slot per lane: lanes of one expert find each other."""
    g = groups
    sTotals, sExpert, sFirst, sSlot, sShare = g.sTotals, g.sExpert, g.sFirst, g.sSlot, g.sShare
    sIsServed = g.sIsServed
    lane = cute.arch.lane_idx()
    expert, share = Int32(-1), Float32(0.0)
    if lane < slots:
        expert = mExperts[lane]
        share = mShares[lane]
    served = expert >= 0 and expert < g.num_experts
    key = expert if served else Int32(_NO_EXPERT)
    below = (Int32(1) << lane) - 1
    alike = Int32(cute.arch.match_sync(_FULL_WARP, key))
    leads = served and (alike & below) == 0
    leaders = Int32(cute.arch.vote_ballot_sync(leads))
    own = cute.arch.popc(alike) if leads else Int32(0)
    upto = _sum_of_lanes_below_and_own(own)
    leader = cute.arch.popc((alike & (0 - alike)) - 1)
    first = cute.arch.shuffle_sync(upto - own, leader)
    position = first + cute.arch.popc(alike & below)
    if lane < slots:
        sIsServed[lane] = Uint8(1) if served else Uint8(0)
    if served:
        sSlot[position] = lane
        sShare[position] = share
    if leads:
        place = cute.arch.popc(leaders & below)
        sExpert[place] = expert
        sFirst[place] = first
    chosen = cute.arch.popc(leaders)
    if lane == WARP_SIZE - 1:
        sTotals[0] = chosen
        sFirst[chosen] = upto


@cute.jit
def _sum_of_lanes_below_and_own(own: Int32) -> Int32:
    lane = cute.arch.lane_idx()
    total = own
    for step in cutlass.range_constexpr(5):
        other = cute.arch.shuffle_sync_up(total, 1 << step, mask_and_clamp=0)
        total = total + other if lane >= 1 << step else total
    return total


@cute.jit
def _group_many(
    groups: cutlass.Constexpr,
    mExperts: cute.Tensor,
    mShares: cute.Tensor,
    slots: Int32,
) -> Int32:
    """All threads, each with neighbouring slots: a bit per row and expert, one sum over slots."""
    g = groups
    sRows, sFirstOf, sSlot, sShare, sIsServed = g.sRows, g.sFirstOf, g.sSlot, g.sShare, g.sIsServed
    tid, _, _ = cute.arch.thread_idx()
    per_thread = -(-g.max_slots // g.threads)
    rExpert = cute.make_rmem_tensor((per_thread,), Int32)
    rShare = cute.make_rmem_tensor((per_thread,), Float32)
    for i in cutlass.range_constexpr(per_thread):
        slot = tid * per_thread + i
        rExpert[i], rShare[i] = Int32(-1), Float32(0.0)
        if slot < slots:
            rExpert[i] = mExperts[slot]
            rShare[i] = mShares[slot]
    cute.arch.sync_threads()
    for i in cutlass.range_constexpr(per_thread):
        expert, row = rExpert[i], (tid * per_thread + i) // g.top_k
        if expert >= 0 and expert < g.num_experts:
            word = 2 * expert + row // _WORD_ROWS
            cute.arch.atomic_or(sRows.iterator + word, Int32(1) << row % _WORD_ROWS)
    cute.arch.sync_threads()
    chosen = _number_positions(g, rExpert, tid)
    for i in cutlass.range_constexpr(per_thread):
        slot = tid * per_thread + i
        expert = rExpert[i]
        if slot < slots:
            sIsServed[slot] = Uint8(0)
        if expert >= 0 and expert < g.num_experts:
            position = sFirstOf[expert] + _rank(sRows, expert, slot // g.top_k)
            sSlot[position] = slot
            sIsServed[slot] = Uint8(1)
            sShare[position] = rShare[i]
    cute.arch.sync_threads()
    return chosen


@cute.jit
def _number_positions(groups: cutlass.Constexpr, rExpert: cute.Tensor, tid: Int32) -> Int32:
    """Number experts and positions by one sum over the threads; returns the number of experts."""
    g = groups
    sFirstOf, sFirst, sExpert, sTotals = g.sFirstOf, g.sFirst, g.sExpert, g.sTotals
    lane, warp = cute.arch.lane_idx(), cute.arch.warp_idx()
    per_thread = -(-g.max_slots // g.threads)
    mine = Int32(0)
    for i in cutlass.range_constexpr(per_thread):
        mine = mine + _packed_count(g, rExpert[i], (tid * per_thread + i) // g.top_k)
    total = _sum_of_lanes_below_and_own(mine)
    if lane == WARP_SIZE - 1:
        sTotals[warp] = total
    cute.arch.sync_threads()
    before = total - mine
    everything = Int32(0)
    for other_warp in cutlass.range_constexpr(g.threads // WARP_SIZE):
        part = sTotals[other_warp]
        before = before + part if other_warp < warp else before
        everything = everything + part
    for i in cutlass.range_constexpr(per_thread):
        expert = rExpert[i]
        count = _packed_count(g, expert, (tid * per_thread + i) // g.top_k)
        if count > 0:
            first = before & ((1 << _COUNT_BITS) - 1)
            sExpert[before >> _COUNT_BITS] = expert
            sFirst[before >> _COUNT_BITS] = first
            sFirstOf[expert] = first
        before = before + count
    if tid == 0:
        sFirst[everything >> _COUNT_BITS] = everything & ((1 << _COUNT_BITS) - 1)
    cute.arch.sync_threads()
    return everything >> _COUNT_BITS


@cute.jit
def _packed_count(groups: cutlass.Constexpr, expert: Int32, row: Int32) -> Int32:
    """For an expert's first slot: one expert in the upper half, its rows in the lower; else 0."""
    g, count = groups, Int32(0)
    # Two conditions, so that no word is read for an id outside the experts.
    if expert >= 0 and expert < g.num_experts:  # noqa: SIM102
        if _rank(g.sRows, expert, row) == 0:
            count = cute.arch.popc(g.sRows[2 * expert])
            count = count + cute.arch.popc(g.sRows[2 * expert + 1]) + (1 << _COUNT_BITS)
    return count


@cute.jit
def _rank(sRows: cute.Tensor, expert: Int32, row: Int32) -> Int32:
    """How many rows before this one chose the expert."""
    below = (Int32(1) << row % _WORD_ROWS) - 1
    low, high = sRows[2 * expert], sRows[2 * expert + 1]
    in_low = cute.arch.popc(low & below)
    in_both = cute.arch.popc(low) + cute.arch.popc(high & below)
    return in_low if row < _WORD_ROWS else in_both
