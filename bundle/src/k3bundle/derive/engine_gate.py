"""Whether the engine was one engine all through a cell, and whether its drafts were of use."""

from collections.abc import Sequence

from k3bundle.derive.problem import Problem
from k3bundle.derive.restart import restart_problem
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.speculation import SpeculationReading

__all__ = ["engine_problem", "lost_speculation"]


def lost_speculation(
    boots: Sequence[CellBoot], speculation: Sequence[SpeculationReading]
) -> str | None:
    """Say that drafts work in the baseline and not in the candidate, which then falls short.

    Args:
        boots: Boots that finished the cell.
        speculation: What was read of the drafts in each of them.

    Returns:
        A sentence; None when drafts work in both arms, or not in the baseline either.
    """
    found: dict[str, list[str]] = {"baseline": [], "candidate": []}
    for boot, reading in zip(boots, speculation, strict=True):
        if reading.problem is not None:
            found[boot.slot.arm].append(f"in boot {boot.slot.slot}, {reading.problem}")
    arms = {boot.slot.arm for boot in boots}
    if len(arms) == 1 or found["baseline"] or not found["candidate"]:
        return None
    return f"Speculation works in the baseline and not in the candidate: {found['candidate'][0]}."


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
