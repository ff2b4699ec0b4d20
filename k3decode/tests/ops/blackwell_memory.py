"""What the hardware does with shared and tensor memory, as far as addresses go, in plain NumPy.

Written from the published description of the instructions, apart from the kernel: which byte an
operand's descriptor means for each element, what a bulk copy writes, and which lane a row of a
product is in.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from k3decode.ops.mla_decode_blackwell.config import MlaDecodeBlackwellConfig

Bytes = NDArray[np.uint8]
Indices = NDArray[np.int64]

LANES = 128
_GROUP = 8
_PIECE = 16


def swizzled(address: Indices, row_bytes: int) -> Indices:
    """Exchange pieces of 16 bytes by the number of the row, for rows of 16 to 128 bytes."""
    return address ^ (address >> 3 & (row_bytes - _PIECE))


def bulk_copy(memory: Bytes, target: int, rows: Bytes) -> None:
    """Write a box [rows, 64 or 128 bytes] as a bulk tensor copy of that swizzle does."""
    count, width = rows.shape
    row, byte = np.indices((count, width))
    memory[swizzled(target + row * width + byte, width)] = rows


@dataclass(frozen=True)
class Descriptor:
    """An operand of one matrix product."""

    start: int
    """Bytes."""
    leading: int
    """Bytes: for depth along rows unused."""
    stride: int
    """Bytes."""
    row_bytes: int
    """Of the swizzle; 16 is none."""
    turned: bool
    """Whether rows of memory run along the rows of the operand instead of along the depth."""

    def places(self, rows: int, depth: int, size: int) -> Indices:
        """Byte address of each element [rows, depth] of `size` bytes."""
        row, at = np.indices((rows, depth))
        if not self.turned:
            byte = row // _GROUP * self.stride + row % _GROUP * self.row_bytes + at * size
        else:
            span = self.row_bytes // size
            # Without a swizzle the two distances change places.
            across, along = self.leading, self.stride
            if self.row_bytes == _PIECE:
                across, along = self.stride, self.leading
            byte = row // span * across + row % span * size
            byte = byte + at // _GROUP * along + at % _GROUP * self.row_bytes
        return swizzled(self.start + byte, self.row_bytes)


def lane_of(row: int, rows: int) -> int:
    """Lane of tensor memory with a row of a product of 64 or 128 rows."""
    return row if rows == LANES else 32 * (row // 16) + row % 16


Pairs = list[tuple[Descriptor, Descriptor]]


@dataclass(frozen=True)
class Storage:
    """Where the operands begin, as the kernel allocates them."""

    config: MlaDecodeBlackwellConfig

    @property
    def shared(self) -> int:
        return self.config.latent_slots * self.config.unit_bytes

    @property
    def query(self) -> int:
        return self.shared + self.config.shared_slots * self.config.shared_tile_bytes

    @property
    def query_shared(self) -> int:
        return self.query + self.config.columns * self.config.latent * self.config.element_bytes

    @property
    def shares(self) -> int:
        return self.query + self.config.query_bytes

    @property
    def end(self) -> int:
        return self.shares + self.config.share_bytes

    def key_products(self, slot: int, shared_slot: int) -> Pairs:
        """Operands of the scores: cache rows and queries, 32 bytes of depth at a time."""
        c = self.config
        found = []
        for unit in range(c.units):
            for span in range(c.spans):
                keys = slot_of(c, slot + unit) * c.unit_bytes + span * c.tile_tokens * 128
                query = self.query + (unit * c.spans + span) * c.columns * 128
                found += [
                    (_rows(keys + at, 128), _rows(query + at, 128)) for at in range(0, 128, 32)
                ]
        width = c.shared * c.element_bytes
        keys = self.shared + shared_slot * c.shared_tile_bytes
        return found + [
            (_rows(keys + at, width), _rows(self.query_shared + at, width))
            for at in range(0, width, 32)
        ]

    def value_products(self, slot: int, unit: int, term: int) -> Pairs:
        """Operands of the sums of a unit: its latents, turned, and shares."""
        c = self.config
        values = slot_of(c, slot + unit) * c.unit_bytes
        shares = self.shares + term * (c.share_bytes // c.terms)
        # Between spans; the compiler writes 16 where there is only one.
        apart = c.tile_tokens * 128 if c.spans > 1 else 16
        wide = 16 * c.element_bytes
        across, along = c.tile_tokens * wide, 8 * wide
        if wide == 16:
            across, along = along, across
        return [
            (
                Descriptor(values + at * 128, apart, 1024, 128, turned=True),
                Descriptor(shares + at * wide, across, along, wide, turned=True),
            )
            for at in range(0, c.tile_tokens, c.depth)
        ]


def _rows(start: int, row_bytes: int) -> Descriptor:
    return Descriptor(start, 16, 8 * row_bytes, row_bytes, turned=False)


def slot_of(config: MlaDecodeBlackwellConfig, place: int) -> int:
    return place % config.latent_slots
