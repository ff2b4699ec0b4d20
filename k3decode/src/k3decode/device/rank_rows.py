# mypy: ignore-errors
# Device code that branches at compile time.
"""Parts of rows that all ranks have: each thread sends this rank's and takes those of the others.

All reads are requested before one of them is looked at, this rank's own among them. No other thread
reads the same words of a mailbox.
"""

from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32, Int64, cute

from k3decode.device.mailbox_words import (
    SLOT_BITS,
    WORDS,
    floats_of,
    load_words,
    own_words,
    send_words,
    sendable,
    settled,
)

__all__ = ["RankRows", "gather_words", "sum_words"]

_VALUES = 2 * WORDS


@dataclass
class RankRows:
    """A row of an exchange, as a thread sees it."""

    place: Int64
    """Address of this rank's mailbox."""
    peers: list
    """Those of all ranks."""
    rank: Int32
    error: Int64
    """Address of the error word."""
    code: Int64
    """What it is set to for the row, of rank 0."""
    deadline: Int64


@cute.jit
def sum_words(rows: RankRows, own: Int64, inside: Int64, slot_bytes: Int64):
    """Eight BF16 values of each rank, summed in the order of ranks, FP32.

    Args:
        rows: the exchange.
        own: address of this rank's values.
        inside: where they are in a slot.
        slot_bytes: from one rank's slot to the next.
    """
    found = own_words(own)
    ranks = len(rows.peers)
    places = [rows.place + r * slot_bytes + inside for r in range(ranks)]
    arrived = [load_words(places[r]) for r in range(ranks)]
    mine = sendable(found)
    _send(rows, rows.rank * slot_bytes + inside, mine)
    totals = [Float32(0.0)] * _VALUES
    for r in cutlass.range_constexpr(ranks):
        wanted = Int32(1) if r != rows.rank else Int32(0)
        code = rows.code + (r << SLOT_BITS)
        there = settled(arrived[r], places[r], wanted, rows.error, code, rows.deadline)
        taken = [there[i] if r != rows.rank else mine[i] for i in range(WORDS)]
        values = floats_of(taken)
        totals = [totals[i] + values[i] for i in range(_VALUES)]
    return totals


@cute.jit
def gather_words(rows: RankRows, own: Int64, inside: Int64, owner: Int32):
    """Four words of the rank that owns them.

    Args:
        rows: the exchange.
        own: address of this rank's words, read where it is the owner.
        inside: where they are in a row of the only slot.
        owner: a rank.
    """
    w0, w1, w2, w3 = Int32(0), Int32(0), Int32(0), Int32(0)
    if owner == rows.rank:
        w0, w1, w2, w3 = sendable(own_words(own))
        _send(rows, inside, [w0, w1, w2, w3])
    else:
        place = rows.place + inside
        code = rows.code + (Int64(owner) << SLOT_BITS)
        w0, w1, w2, w3 = settled(
            load_words(place), place, Int32(1), rows.error, code, rows.deadline
        )
    return w0, w1, w2, w3


@cute.jit
def _send(rows: RankRows, offset: Int64, words: list):
    """Leave four words at an offset of the mailboxes of all other ranks."""
    for r in cutlass.range_constexpr(len(rows.peers)):
        if r != rows.rank:
            send_words(rows.peers[r] + offset, words)
