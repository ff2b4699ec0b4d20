"""Numbers of the chunks and tiles of a CTA: which slot of a ring has a turn, and in which phase.

Plain arithmetic on integers, the host's or the device's alike.
"""

__all__ = ["first_turn_of_group", "phase_of", "slot_of"]


def slot_of(turn: int, slots: int) -> int:
    """Slot of a ring that has the turn."""
    return turn % slots


def phase_of(turn: int, slots: int) -> int:
    """Parity of the times that the turn's slot was used before.

    It is what a wait for a full slot passes; a wait for an empty one passes the other.
    """
    return turn // slots % 2


def first_turn_of_group(turn: int, group: int, groups: int) -> int:
    """First chunk from a turn on that a group of warps de-quantises."""
    return turn + (group - turn % groups + groups) % groups
