"""Which boots a plan makes, in which order. Pure.

Pairs of boots close in time are what a ratio comes from; A-B-B-A cancels a steady drift. Blocks
alternate with B-A-A-B, so that neither arm is always the one on a machine that was just idle. An
A-A pair before them shows the noise of this machine on this day.
"""

from collections.abc import Iterator, Sequence

from k3bundle.plan import BootSlot
from k3bundle.subject import ArmName

__all__ = ["blocks", "boot_slots"]

_ABBA: tuple[ArmName, ...] = ("baseline", "candidate", "candidate", "baseline")
_BAAB: tuple[ArmName, ...] = ("candidate", "baseline", "baseline", "candidate")


def blocks(count: int) -> tuple[ArmName, ...]:
    """The arms of `count` blocks: A-B-B-A, then B-A-A-B, in turn."""
    return tuple(arm for number in range(count) for arm in (_BAAB if number % 2 else _ABBA))


def boot_slots(
    deployments: Sequence[str], order: Sequence[ArmName], null_pairs: int
) -> tuple[BootSlot, ...]:
    """The boots of a plan.

    Args:
        deployments: Names, in the order in which they are booted. All boots of one stand
            together: what is compared must be close in time.
        order: Arms of the comparing boots of each deployment; boots 2n and 2n+1 are a pair.
        null_pairs: A-A pairs of each deployment, before its comparing boots.
    """
    return tuple(
        BootSlot(
            slot=slot, arm=arm, pair=slot // 2, role="null" if null else "compare", deployment=name
        )
        for slot, (name, arm, null) in enumerate(_boots(deployments, order, null_pairs))
    )


def _boots(
    deployments: Sequence[str], order: Sequence[ArmName], null_pairs: int
) -> Iterator[tuple[str, ArmName, bool]]:
    for name in deployments:
        for _ in range(2 * null_pairs):
            yield name, "baseline", True
        for arm in order:
            yield name, arm, False
