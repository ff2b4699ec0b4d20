# mypy: ignore-errors
"""Barriers between the warps of a kernel that attends to latent tiles, and how its rings turn."""

import cutlass
from cutlass import Int32, cute

__all__ = ["LatentBarriers", "advance", "start_barriers"]


class LatentBarriers:
    """Places of the barriers in shared memory.

    Full and empty: of the units of latents, of key-only columns, of the queries. Then: scores are
    there, shares are there, and latents have been added.
    """

    def __init__(self, first: cute.Pointer, config) -> None:
        self.latent_full = first
        self.latent_empty = first + config.latent_slots
        self.shared_full = first + 2 * config.latent_slots
        self.shared_empty = self.shared_full + config.shared_slots
        self.query_full = self.shared_empty + config.shared_slots
        self.query_empty = self.query_full + 1
        self.score_full = self.query_empty + 1
        self.share_full = self.score_full + config.score_sets
        self.value_done = self.share_full + 1

    @staticmethod
    def count(config) -> int:
        """How many a kernel has."""
        return 2 * (config.latent_slots + config.shared_slots) + config.score_sets + 4


@cute.jit
def start_barriers(config: cutlass.Constexpr, bars: cutlass.Constexpr):
    """One arrival each, but where threads arrive for themselves."""
    c = config
    with cute.arch.elect_one():
        for slot in cutlass.range_constexpr(c.latent_slots):
            cute.arch.mbarrier_init(bars.latent_full + slot, 1)
            cute.arch.mbarrier_init(bars.latent_empty + slot, 1)
        for slot in cutlass.range_constexpr(c.shared_slots):
            cute.arch.mbarrier_init(bars.shared_full + slot, 1)
            cute.arch.mbarrier_init(bars.shared_empty + slot, 1)
        cute.arch.mbarrier_init(bars.query_full, c.ask_threads)
        cute.arch.mbarrier_init(bars.query_empty, 1)
        for place in cutlass.range_constexpr(c.score_sets):
            cute.arch.mbarrier_init(bars.score_full + place, 1)
        cute.arch.mbarrier_init(bars.share_full, c.weigh_threads)
        cute.arch.mbarrier_init(bars.value_done, 1)
        cute.arch.mbarrier_init_fence()


@cute.jit
def advance(place: cute.Tensor, slot: cutlass.Constexpr, slots: cutlass.Constexpr):
    """Move a ring on; its phase turns where it begins again."""
    following = place[slot] + 1
    turned = following == slots
    place[slot] = Int32(0) if turned else following
    place[slot + 1] = place[slot + 1] ^ (Int32(1) if turned else Int32(0))
