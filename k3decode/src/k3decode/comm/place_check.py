"""Checks of a place that a launch is given."""

import torch

from k3decode.comm.mailbox import Place
from k3decode.host.inputs import InputCheck

__all__ = ["check_place"]

# Of one access.
_WORDS = 4


def check_place(check: InputCheck, place: Place, *, rows: int, words: int, slots: int) -> None:
    """Add what is wrong with a place of so many slots of rows of words."""
    check.tensor(
        "place.words",
        place.words,
        dtype=torch.int32,
        shape=[slots, rows, words],
        dense_from=2,
        stride_multiple=_WORDS,
    )
    check.tensor("place.peers", place.peers, dtype=torch.int64, shape=[place.ranks], dense_from=0)
    check.tensor("place.error", place.error, dtype=torch.int64, shape=[1], dense_from=0)
    check.require(
        0 <= place.rank < place.ranks,
        f"place.rank: expected 0 to {place.ranks - 1}, found {place.rank}",
    )
