"""Where in shared memory 16 bytes lie that threads write for the matrix unit: plain arithmetic.

The unit reads rows of 128, 64 or 32 bytes whose pieces of 16 bytes are exchanged by the number of
the row (swizzle); bulk copies write that form by themselves. Numbers may be those of the device.
"""

from typing import Any

__all__ = ["PIECE_BYTES", "SHARE_COLUMNS", "column_major_place", "row_place"]

PIECE_BYTES = 16
"""Bytes that stay together."""

SHARE_COLUMNS = 16
"""Columns of a block of shares."""

_WIDE_BYTES, _NARROW_BYTES = 128, 64
_WIDE_PIECES, _NARROW_PIECES = 8, 4


def row_place(rows: int, row_bytes: int, row: Any, piece: Any) -> Any:
    """Bytes to one piece of a row of a matrix whose rows run along the depth of a product.

    Args:
        rows: of the matrix; its columns lie in spans of `row_bytes`, one after the other.
        row_bytes: 128, or 64 for a matrix of one such span.
        row: number of the row.
        piece: of the whole row.
    """
    if row_bytes == _NARROW_BYTES:
        return row * _NARROW_BYTES + (piece ^ row // 2 % _NARROW_PIECES) * PIECE_BYTES
    span = piece // _WIDE_PIECES * (rows * _WIDE_BYTES)
    return span + row * _WIDE_BYTES + (piece % _WIDE_PIECES ^ row % _WIDE_PIECES) * PIECE_BYTES


def column_major_place(depth: int, element_bytes: int, block: int, row: Any, half: int = 0) -> Any:
    """Bytes to one piece of 16 columns of a matrix whose rows are the depth of a product.

    Args:
        depth: rows of the matrix; blocks of 16 columns lie one after the other.
        element_bytes: 2, where a row has two pieces of a block, swizzled, or 1, where it has one.
        block: number of the block.
        row: number of the row.
        half: which piece.
    """
    row_bytes = SHARE_COLUMNS * element_bytes
    place = block * (depth * row_bytes) + row * row_bytes
    if row_bytes == PIECE_BYTES:
        return place
    return place + (half ^ row // 4 % 2) * PIECE_BYTES
