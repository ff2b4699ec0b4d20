"""Compile-time choices of the attention kernel for Blackwell, and where everything lies."""

from dataclasses import dataclass

from k3decode.ops.mla.cache_format import CacheFormat
from k3decode.ops.mla.latent_row import LatentRow

__all__ = ["BLOCK_COLUMNS", "BOX_TOKENS", "MlaDecodeBlackwellConfig", "block_columns"]

BLOCK_COLUMNS = (16, 32, 48, 96)
"""Query rows of a CTA for which there is a variant: heads times tokens of a request, and more."""

BOX_TOKENS = 16
"""Cache rows of one bulk copy; pages hold a multiple of them."""

_UNIT_COLUMNS = 128
_SPAN_BYTES = 128
_COPY_BYTES = 16
_WARP_SIZE = 32
_FP32_BYTES = 4
_MAX_SHARED_BYTES = 232_448
_TENSOR_MEMORY_COLUMNS = 512
_FEWEST_TENSOR_MEMORY_COLUMNS = 32
# Barriers, what the warps exchange, and what alignment costs.
_EXCHANGE_BYTES = 5_120


@dataclass(frozen=True)
class MlaDecodeBlackwellConfig(LatentRow):
    """One compiled variant; it serves every number of heads, rows and tokens."""

    cache_format: CacheFormat
    """Format of queries and cache rows."""
    latent: int
    """Columns that are keys and values."""
    shared: int
    """Columns that are keys only."""
    columns: int
    """Query rows of a CTA, the columns of the matrix products; missing ones are zero."""
    shared_slots: int = 2
    """Tiles whose key-only columns are in shared memory or on their way."""
    fewest_tiles: int = 1
    """Tiles of a part, at least."""

    def __post_init__(self) -> None:
        if self.latent % _UNIT_COLUMNS or self.shared * self.element_bytes not in {64, 128}:
            raise ValueError(
                f"expected latents of a multiple of {_UNIT_COLUMNS} columns and 64 or 128 bytes "
                f"that are keys only, found {self.latent} and {self.shared}"
            )
        if self.columns not in BLOCK_COLUMNS:
            raise ValueError(
                f"expected {', '.join(map(str, BLOCK_COLUMNS))} query rows, found {self.columns}"
            )
        if self.latent_slots <= self.units:
            raise ValueError(
                f"expected room for more than {self.units} units of cache rows, found it for "
                f"{self.latent_slots}: take fewer query rows"
            )

    @property
    def tile_tokens(self) -> int:
        """Cache rows of a tile: as many for which a unit of either format has the same size."""
        return _UNIT_COLUMNS // self.element_bytes

    @property
    def box_tokens(self) -> int:
        """Cache rows of one bulk copy."""
        return BOX_TOKENS

    @property
    def boxes(self) -> int:
        """Bulk copies that bring a span of a tile."""
        return self.tile_tokens // BOX_TOKENS

    @property
    def units(self) -> int:
        """Parts of 128 latent columns, as many as a product has rows."""
        return self.latent // _UNIT_COLUMNS

    @property
    def span(self) -> int:
        """Columns of 128 bytes, between which shared memory is swizzled."""
        return _SPAN_BYTES // self.element_bytes

    @property
    def spans(self) -> int:
        """Spans of a unit."""
        return _UNIT_COLUMNS // self.span

    @property
    def box_bytes(self) -> int:
        """Bytes of one bulk copy of latents."""
        return BOX_TOKENS * _SPAN_BYTES

    @property
    def shared_box_bytes(self) -> int:
        """Bytes of one bulk copy of columns that are keys only."""
        return BOX_TOKENS * self.shared * self.element_bytes

    @property
    def unit_bytes(self) -> int:
        """Shared memory of one unit of a tile."""
        return self.tile_tokens * _UNIT_COLUMNS * self.element_bytes

    @property
    def shared_tile_bytes(self) -> int:
        """Shared memory of the key-only columns of a tile."""
        return self.tile_tokens * self.shared * self.element_bytes

    @property
    def depth(self) -> int:
        """Depth of one matrix product, 32 bytes."""
        return 32 // self.element_bytes

    @property
    def terms(self) -> int:
        """Numbers whose sum a share is: two E4M3 and an E5M2 have more digits than one FP16."""
        return 1 if self.cache_format == "bf16" else 3

    @property
    def share_scale(self) -> float:
        """Factor on the shares, so that E4M3 keeps small ones; taken back with the sums."""
        return 1.0 if self.cache_format == "bf16" else 256.0

    @property
    def slack(self) -> float:
        """How far, as an exponent of two, a score may exceed what shares are relative to.

        BF16 has room for shares above one; E4M3 of a share times 256 has none.
        """
        return 8.0 if self.cache_format == "bf16" else 0.0

    @property
    def query_bytes(self) -> int:
        """Shared memory of the queries."""
        return self.columns * self.row_bytes

    @property
    def share_bytes(self) -> int:
        """Shared memory of the shares of a tile, all terms."""
        return self.terms * self.tile_tokens * self.columns * self.element_bytes

    @property
    def latent_slots(self) -> int:
        """Units of cache rows in shared memory or on their way: all that fit."""
        taken = self.query_bytes + self.share_bytes + self.shared_slots * self.shared_tile_bytes
        return (_MAX_SHARED_BYTES - _EXCHANGE_BYTES - taken) // self.unit_bytes

    @property
    def ahead(self) -> bool:
        """Whether the scores of a tile are worked out before the latents of the one before.

        Both tiles must then fit, in shared memory and with two sets of scores in tensor memory.
        """
        return (
            self.latent_slots >= 2 * self.units
            and (self.units + 2) * self.columns <= _TENSOR_MEMORY_COLUMNS
        )

    @property
    def score_sets(self) -> int:
        """Tiles whose scores are in tensor memory."""
        return 2 if self.ahead else 1

    @property
    def tensor_memory_columns(self) -> int:
        """Columns of tensor memory, a power of two: sums of latents, then scores."""
        needed = (self.units + self.score_sets) * self.columns
        return max(1 << (needed - 1).bit_length(), _FEWEST_TENSOR_MEMORY_COLUMNS)

    @property
    def row_copies(self) -> int:
        """Pieces of 16 bytes of a query."""
        return self.row_bytes // _COPY_BYTES

    @property
    def latent_copies(self) -> int:
        """Pieces of 16 bytes of a query that meet latents."""
        return self.latent * self.element_bytes // _COPY_BYTES

    @property
    def weigh_threads(self) -> int:
        """Threads that make shares of scores: one for each lane of tensor memory."""
        return 4 * _WARP_SIZE

    @property
    def ask_threads(self) -> int:
        """Threads that bring the queries."""
        return 2 * _WARP_SIZE

    @property
    def threads(self) -> int:
        """Threads of a CTA: a warp copies, one multiplies, two bring queries, four make shares."""
        return 2 * _WARP_SIZE + self.ask_threads + self.weigh_threads


def block_columns(query_rows: int) -> int:
    """Query rows of a CTA for requests of so many: all of them where there is such a variant."""
    return next((n for n in BLOCK_COLUMNS if n >= query_rows), BLOCK_COLUMNS[-1])
