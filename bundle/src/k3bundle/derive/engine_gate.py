"""Whether the engine was one engine all through a cell, and whether its drafts were of use."""

from collections.abc import Sequence

from k3bundle.derive.problem import Problem
from k3bundle.derive.restart import restart_problem
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.speculation import SpeculationReading

__all__ = ["engine_problem"]


def engine_problem(
    boots: Sequence[CellBoot], speculation: Sequence[SpeculationReading]
) -> Problem | None:
    """Say why the engine's counters forbid to judge a cell.

    Args:
        boots: Boots that finished the cell.
        speculation: What was read of the drafts in each of them.

    Returns:
        The first problem; None when there is none.
    """
    for boot, reading in zip(boots, speculation, strict=True):
        where = f"In boot {boot.slot.slot} ({boot.slot.arm})"
        restarted = restart_problem(boot.counters)
        if restarted is not None:
            return Problem("engine_restarted", f"{where} {restarted}.")
        if reading.problem is not None:
            return Problem("speculation", f"{where} {reading.problem}.")
    return None
