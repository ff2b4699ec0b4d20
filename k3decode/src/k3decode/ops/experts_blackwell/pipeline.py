# mypy: ignore-errors
"""Barriers between the warps of an expert kernel for Blackwell."""

import cutlass
from cutlass import cute

from k3decode.ops.experts_blackwell.config import ExpertsBlackwellConfig

__all__ = ["Bars", "start_barriers"]

_SUM_SETS = 2


class Bars:
    """Places of the barriers in shared memory, full and empty of each ring."""

    def __init__(self, first: cute.Pointer, config: ExpertsBlackwellConfig) -> None:
        c = config
        self.weights_full = first
        self.weights_empty = first + c.stages
        self.tokens_full = first + 2 * c.stages
        self.tokens_empty = first + 3 * c.stages
        self.operand_full = first + 4 * c.stages
        self.operand_empty = self.operand_full + c.groups
        self.sums_full = self.operand_empty + c.groups
        self.sums_empty = self.sums_full + _SUM_SETS

    @staticmethod
    def count(config: ExpertsBlackwellConfig) -> int:
        """How many a kernel has."""
        return 4 * config.stages + 2 * config.groups + 2 * _SUM_SETS


@cute.jit
def start_barriers(config: cutlass.Constexpr, bars: cutlass.Constexpr):
    """One arrival each, but where threads arrive for themselves."""
    c = config
    with cute.arch.elect_one():
        for slot in cutlass.range_constexpr(c.stages):
            cute.arch.mbarrier_init(bars.weights_full + slot, 1)
            cute.arch.mbarrier_init(bars.weights_empty + slot, c.group_threads)
            cute.arch.mbarrier_init(bars.tokens_full + slot, c.ask_threads)
            cute.arch.mbarrier_init(bars.tokens_empty + slot, 1)
        for group in cutlass.range_constexpr(c.groups):
            cute.arch.mbarrier_init(bars.operand_full + group, c.group_threads)
            cute.arch.mbarrier_init(bars.operand_empty + group, 1)
        for place in cutlass.range_constexpr(_SUM_SETS):
            cute.arch.mbarrier_init(bars.sums_full + place, 1)
            cute.arch.mbarrier_init(bars.sums_empty + place, c.group_threads)
        cute.arch.mbarrier_init_fence()
