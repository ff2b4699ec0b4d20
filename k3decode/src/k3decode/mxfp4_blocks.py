"""MXFP4 weights in the order in which the lanes of a warp use them; exact, in plain torch.

A block is 32 rows by 32 columns, one scale group wide. One lane holds four words of it: rows g,
g + 8, g + 16, g + 24 for g = lane // 4, and columns 8 t to 8 t + 7 for t = lane % 4. Two words
carry eight pairs of neighbouring columns. Their bits are placed so that one rotation and one mask
make a pair of BF16 numbers: sign to bit 15, exponent and mantissa to bits 8 to 6, which is the
value times 2^-126. Three pairs fit a word that way; the bits left over in two words are two more,
after one rotation brings them together.

Scales stay bytes: of each block, eight words of four rows g, g + 8, g + 16, g + 24.

A chunk is two neighbouring blocks of the same rows with their scales behind them, so that one
stretch of memory has all that two groups need: 1024 bytes of words, then for each g the word of
scales of the first and of the second block.

Where a thread has a weight row to itself, a chunk is 128 rows by 64 columns: of each of two groups
16 bytes a row, whose two pairs of words carry 16 columns each, eight where above is one row and
eight where above is the other; then two scales a row.
"""

from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_ROWS",
    "BORROW_MASK",
    "BORROW_ROTATION",
    "CHUNK_BYTES",
    "CHUNK_GROUPS",
    "PAIR_ROTATIONS",
    "ROW_CHUNK_BYTES",
    "ROW_CHUNK_ROWS",
    "SCALE_BYTES",
    "SHARED_ROTATIONS",
    "pack_blocks",
    "pack_chunks",
    "pack_row_chunks",
    "pack_scales",
    "unpack_blocks",
    "unpack_chunks",
    "unpack_row_chunks",
    "unpack_scales",
]

BLOCK_ROWS = 32
"""Weight rows of one block."""

BLOCK_BYTES = 512
"""Bytes of one block without its 32 bytes of scales."""

SCALE_BYTES = 32
"""Bytes of one block's scales."""

CHUNK_GROUPS = 2
"""Blocks of one chunk."""

CHUNK_BYTES = CHUNK_GROUPS * (BLOCK_BYTES + SCALE_BYTES)
"""Bytes of one chunk, scales included."""

ROW_CHUNK_ROWS = 128
"""Weight rows of a chunk where a thread has a row to itself."""

ROW_CHUNK_BYTES = ROW_CHUNK_ROWS * CHUNK_GROUPS * 17
"""Bytes of such a chunk: 16 of words and one of scales for each row and group."""

PAIR_ROTATIONS = (0, 26, 6)
"""Rotations to the right that bring pairs 0 to 2 of a word's row into place.

Where one is a shift to the left that loses nothing but bits of other pairs, a multiplication can do
it, on units that have more room than those of logic and shifts.
"""

SHARED_ROTATIONS = (30, 4)
"""Rotations to the right of the combined word that bring pair 3 of both rows into place."""

BORROW_MASK = 0x0C180C18
"""Bits of the combined word that come from the first word."""

BORROW_ROTATION = 2
"""Rotation to the left of the second word before it fills the other bits of the combined word."""

_WORD_BITS = 32
_HALF_BITS = 16
# Places of mantissa, exponent low, exponent high and sign in BF16 as the mask leaves them.
_FIELD = (6, 7, 8, 15)
# Columns of one row in one word.
_WORD_COLUMNS = 8


class _Place(NamedTuple):
    """One bit of eight columns of two rows, and where the two words have it."""

    row: int
    column: int
    bit: int
    byte: int
    shift: int


def _source(row: int, pair: int, goal: int) -> tuple[int, int]:
    """Word, and place in it, of the bit that the kernels bring to place `goal` of a pair."""
    if pair < len(PAIR_ROTATIONS):
        return row, (goal + PAIR_ROTATIONS[pair]) % _WORD_BITS
    place = (goal + SHARED_ROTATIONS[row]) % _WORD_BITS
    if BORROW_MASK >> place & 1:
        return 0, place
    return 1, (place - BORROW_ROTATION) % _WORD_BITS


def _places() -> tuple[_Place, ...]:
    """Where each bit of eight columns of two rows is in two words."""
    places = []
    for row, column, bit in product(range(2), range(_WORD_COLUMNS), range(4)):
        goal = _FIELD[bit] + _HALF_BITS * (column % 2)
        word, place = _source(row, column // 2, goal)
        byte, shift = divmod(_WORD_BITS * word + place, 8)
        places.append(_Place(row, column, bit, byte, shift))
    return tuple(places)


def pack_blocks(tiles: Tensor) -> Tensor:
    """Bytes [..., T, 32, C / 2] of row tiles -> [..., T, C / 32, 512]."""
    nibbles = torch.stack([tiles & 0xF, tiles >> 4], dim=-1).flatten(-2)
    # Axes: word pair, row of the pair, g, group, t, column.
    split = nibbles.unflatten(-2, (2, 2, 8)).unflatten(-1, (-1, 4, _WORD_COLUMNS))
    lanes = split.movedim((-3, -4, -2, -6, -5), (-6, -5, -4, -3, -2))
    return _woven(lanes).flatten(-4)


def unpack_blocks(blocks: Tensor) -> Tensor:
    """The other way: [..., T, G, 512] -> [..., T, 32, 16 G]."""
    words = blocks.unflatten(-1, (8, 4, 2, 8))
    lanes = _unwoven(words)
    split = lanes.movedim((-6, -5, -4, -3, -2), (-3, -4, -2, -6, -5))
    nibbles = split.flatten(-3).flatten(-4, -2).unflatten(-1, (-1, 2))
    return nibbles[..., 0] | nibbles[..., 1] << 4


def pack_scales(tiles: Tensor) -> Tensor:
    """Bytes [..., T, 32, G] of row tiles -> [..., T, G, 32], four rows of one lane side by side."""
    return tiles.unflatten(-2, (4, 8)).movedim((-1, -2), (-3, -2)).flatten(-2)


def unpack_scales(blocks: Tensor) -> Tensor:
    """The other way."""
    return blocks.unflatten(-1, (8, 4)).movedim((-3, -2), (-1, -2)).flatten(-3, -2)


def pack_chunks(tiles: Tensor, scales: Tensor) -> Tensor:
    """Bytes [..., T, 32, C / 2] and scales [..., T, 32, C / 32] -> [..., T, C / 64, 1088]."""
    words = pack_blocks(tiles).unflatten(-2, (-1, CHUNK_GROUPS)).flatten(-2)
    # Axes: chunk, block, g, row of the lane.
    by_lane = pack_scales(scales).unflatten(-1, (8, 4)).unflatten(-3, (-1, CHUNK_GROUPS))
    return torch.cat([words, by_lane.transpose(-3, -2).flatten(-3)], dim=-1)


def unpack_chunks(chunks: Tensor) -> tuple[Tensor, Tensor]:
    """The other way: [..., T, K, 1088] -> [..., T, 32, 32 K] and [..., T, 32, 2 K]."""
    words, scales = chunks.split([CHUNK_GROUPS * BLOCK_BYTES, CHUNK_GROUPS * SCALE_BYTES], dim=-1)
    blocks = words.unflatten(-1, (CHUNK_GROUPS, BLOCK_BYTES)).flatten(-3, -2)
    by_block = scales.unflatten(-1, (8, CHUNK_GROUPS, 4)).transpose(-3, -2)
    return unpack_blocks(blocks), unpack_scales(by_block.flatten(-2).flatten(-3, -2))


def pack_row_chunks(tiles: Tensor, scales: Tensor) -> Tensor:
    """Bytes [..., T, 128, C / 2] and scales [..., T, 128, C / 32] -> [..., T, C / 64, 4352]."""
    nibbles = torch.stack([tiles & 0xF, tiles >> 4], dim=-1).flatten(-2)
    # Axes: row, chunk, group, unit, half, column; the row behind the group.
    split = nibbles.unflatten(-1, (-1, CHUNK_GROUPS, 2, 2, _WORD_COLUMNS)).movedim(-6, -4)
    words = _woven(split).flatten(-4)
    by_row = scales.unflatten(-1, (-1, CHUNK_GROUPS)).transpose(-3, -2).flatten(-2)
    return torch.cat([words, by_row], dim=-1)


def unpack_row_chunks(chunks: Tensor) -> tuple[Tensor, Tensor]:
    """The other way: [..., T, K, 4352] -> [..., T, 128, 32 K] and [..., T, 128, 2 K]."""
    words, scales = chunks.split(
        [ROW_CHUNK_ROWS * CHUNK_GROUPS * 16, ROW_CHUNK_ROWS * CHUNK_GROUPS], dim=-1
    )
    split = _unwoven(words.unflatten(-1, (CHUNK_GROUPS, ROW_CHUNK_ROWS, 2, 8))).movedim(-4, -6)
    nibbles = split.flatten(-5).unflatten(-1, (-1, 2))
    by_row = scales.unflatten(-1, (ROW_CHUNK_ROWS, CHUNK_GROUPS)).transpose(-3, -2).flatten(-2)
    return nibbles[..., 0] | nibbles[..., 1] << 4, by_row


def _woven(rows: Tensor) -> Tensor:
    """Codes [..., 2, 8] of eight columns of two rows -> the bytes of two words [..., 8]."""
    words = torch.zeros(*rows.shape[:-2], 8, dtype=torch.uint8, device=rows.device)
    for place in _places():
        bits = rows[..., place.row, place.column] >> place.bit & 1
        words[..., place.byte] |= bits << place.shift
    return words


def _unwoven(words: Tensor) -> Tensor:
    """The other way."""
    rows = torch.zeros(*words.shape[:-1], 2, _WORD_COLUMNS, dtype=torch.uint8, device=words.device)
    for place in _places():
        bits = words[..., place.byte] >> place.shift & 1
        rows[..., place.row, place.column] |= bits << place.bit
    return rows
