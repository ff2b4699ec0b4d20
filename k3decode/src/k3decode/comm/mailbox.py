"""Memory through which ranks exchange rows: every rank has its own and writes into all others.

A mailbox has a place for each exchange of a step. In a place that is summed every rank has a slot
of rows; in one that is gathered there is one slot, of which every rank owns columns. What a rank
brings itself stays where its kernel wrote it. A word of all ones has not arrived yet. Whoever takes
a word puts all ones back, so a place may be used again once another exchange lies between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["DEADLINE_CYCLES", "ExchangeFailedError", "Mailbox", "Place", "decode_error"]

DEADLINE_CYCLES = 2_000_000_000
"""How long a kernel waits for a word: about a second."""

_MISSING = -1
_SLOT_BITS = 16
_ROW_BITS = 16
_NUMBER_BITS = 24
_WORDS = 4
_KINDS = {1: "sum before AttnRes", 2: "gather before AttnRes", 3: "latent sum", 4: "front gather"}


class ExchangeFailedError(RuntimeError):
    """A rank did not bring its part before the deadline; the step's rows are NaN."""


@dataclass(frozen=True)
class Place:
    """One exchange, as a launch takes it."""

    words: Tensor
    """This rank's memory, int32 [slots, M, words of a row]."""
    peers: Tensor
    """Address of the same place at every rank, int64 [ranks]; this rank's own is not used.

    Strides are the same everywhere."""
    error: Tensor
    """int64 [1]; 0 unless somebody has given up."""
    rank: int
    """This rank."""
    ranks: int
    number: int
    """Of the exchange in its step."""
    deadline: int = DEADLINE_CYCLES
    outgoing: tuple[Tensor, ...] = ()
    """What `peers` points to, where it is memory of this process."""

    def code(self, kind: int) -> int:
        """What the error word is set to when a launch of a kind misses row 0 of rank 0."""
        return (kind << _NUMBER_BITS | self.number) << _SLOT_BITS + _ROW_BITS


@dataclass(frozen=True)
class Mailbox:
    """All places of one rank for the exchanges of one kind."""

    words: Tensor
    """int32 [places, slots, M, words of a row]."""
    outgoing: tuple[Tensor, ...]
    """The mailboxes of all ranks, this one's among them; peers may have fewer places."""
    error: Tensor
    """int64 [1], shared by all mailboxes of the rank."""
    rank: int
    deadline: int = DEADLINE_CYCLES

    @classmethod
    def allocate(
        cls,
        *,
        places: int,
        slots: int,
        rows: int,
        columns: int,
        rank: int,
        error: Tensor,
        deadline: int = DEADLINE_CYCLES,
    ) -> "Mailbox":
        """Take the memory; `columns` are BF16 and a multiple of eight. It has no peers yet."""
        if columns % (2 * _WORDS):
            raise ValueError(
                f"expected columns in a multiple of {2 * _WORDS}, found {columns}: words travel "
                "four at a time"
            )
        shape = (places, slots, rows, columns // 2)
        words = torch.full(shape, _MISSING, dtype=torch.int32, device=error.device)
        return cls(words=words, outgoing=(), error=error, rank=rank, deadline=deadline)

    def connected(self, peers: Sequence[Tensor]) -> "Mailbox":
        """The mailbox with the memory of all ranks, in their order, this one's own included."""
        return Mailbox(self.words, tuple(peers), self.error, self.rank, self.deadline)

    @cached_property
    def _addresses(self) -> Tensor:
        """By place and rank, int64."""
        found = [
            [one[i % one.shape[0]].data_ptr() for one in self.outgoing]
            for i in range(self.words.shape[0])
        ]
        return torch.tensor(found, dtype=torch.int64, device=self.words.device)

    def place(self, number: int, rows: int) -> Place:
        """The place of an exchange of so many rows.

        With fewer places than exchanges in a step they are used in turn: at least two are needed.
        """
        index = number % self.words.shape[0]
        return Place(
            words=self.words[index][:, :rows],
            peers=self._addresses[index],
            error=self.error,
            rank=self.rank,
            ranks=len(self.outgoing),
            number=number,
            deadline=self.deadline,
            outgoing=tuple(one[index % one.shape[0]][:, :rows] for one in self.outgoing),
        )

    def reset(self) -> None:
        """Forget everything, after a step that was given up; no rank may be inside a step."""
        self.words.fill_(_MISSING)
        self.error.zero_()


def decode_error(error: Tensor) -> None:
    """Raise if a launch has given up; waits for the device.

    Raises:
        ExchangeFailedError: it names the exchange, the rank that is missing and the row.
    """
    code = int(error.item())
    if not code:
        return
    row, slot = code & ((1 << _ROW_BITS) - 1), (code >> _ROW_BITS) & ((1 << _SLOT_BITS) - 1)
    code >>= _SLOT_BITS + _ROW_BITS
    number, kind = code & ((1 << _NUMBER_BITS) - 1), code >> _NUMBER_BITS
    raise ExchangeFailedError(
        f"{_KINDS.get(kind, f'kind {kind}')} {number}: expected row {row} of rank {slot} before "
        "the deadline, found none: its step has ended or it runs another one; stop the step on all "
        "ranks, reset their mailboxes and begin again"
    )
