"""Compile-time choices of the kernel that absorbs the key projection into queries."""

from dataclasses import dataclass

from k3decode.ops.mla.cache_format import CacheFormat
from k3decode.ops.mla.latent_row import LatentRow

__all__ = ["MlaQueryConfig"]

_WARP_SIZE = 32
_PRODUCT_M = 16
_PRODUCT_N = 8
_LOAD_DEPTH = 32
_VECTOR_WIDTH = 8


@dataclass(frozen=True)
class MlaQueryConfig(LatentRow):
    """One compiled variant; it serves every number of heads and rows."""

    nope: int
    """Columns of a head's query that meet the key projection."""
    shared: int
    """Columns that follow and are passed on as they are."""
    latent: int
    """Columns of an absorbed query."""
    cache_format: CacheFormat
    """Format of the result."""
    warps: int = 4
    """Warps of a CTA; each multiplies eight columns of one head, for sixteen rows."""

    def __post_init__(self) -> None:
        # A CTA brings a slice of the projection to shared memory with one chunk of 16 bytes per
        # warp and row.
        if self.nope % _WARP_SIZE or self.nope % _LOAD_DEPTH or self.latent % self.columns:
            raise ValueError(
                f"expected head widths that are multiples of 32 and latents of a multiple of "
                f"{self.columns} columns, found {self.nope} and {self.latent}"
            )
        if self.shared % _VECTOR_WIDTH or self.threads != _PRODUCT_M * self.shared_vectors:
            raise ValueError(
                f"expected shared columns of {_PRODUCT_M} rows that the threads of a CTA copy at "
                f"once, found {self.shared}"
            )

    @property
    def head_width(self) -> int:
        """Columns of a head's query before absorption."""
        return self.nope + self.shared

    @property
    def columns(self) -> int:
        """Latent columns of a CTA."""
        return self.warps * _PRODUCT_N

    @property
    def column_blocks(self) -> int:
        """CTAs of a head, without the one that copies the shared columns."""
        return self.latent // self.columns

    @property
    def shared_vectors(self) -> int:
        """Vectors of 16 bytes of the shared columns."""
        return self.shared // _VECTOR_WIDTH

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return _WARP_SIZE * self.warps

    @property
    def pitch_bytes(self) -> int:
        """Distance of the slice's rows in shared memory: an odd number of 16 bytes."""
        return 2 * self.columns + 16
