"""Compile-time choices of the kernel that combines partial attention."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["MlaCombineConfig"]

_WARP_SIZE = 32
_LANE_COLUMNS = 4
_VECTOR_WIDTH = 8


@dataclass(frozen=True)
class MlaCombineConfig:
    """One compiled variant; it serves every number of heads, rows and partials."""

    source: Literal["parts", "ranks"]
    """Partials of one device, placed by `mla_decode.schedule`, or one partial per rank and row."""
    output: Literal["latents", "values"]
    """Latents with their logarithms, to be combined again, or gated head values."""
    latent: int
    value: int
    """Columns of a head's value."""
    warps: int = 8
    """Warps of a CTA; they take turns with the partials."""
    ahead: int = 8
    """Partials that a warp requests before it needs the first."""
    most_rows: int = 8
    """Rows that a CTA may combine with one reading of the value projection; one warp for each."""
    most_ctas: int = 264
    """CTAs that a launch should have at most; registers leave room for two on a multiprocessor."""
    most_partials: int = 160
    """Partials of a row, at most: parts of the line of tiles, or ranks."""

    def __post_init__(self) -> None:
        if self.latent % self.columns or self.value % (2 * self.warps):
            raise ValueError(
                f"expected latents of a multiple of {self.columns} columns and values of a "
                f"multiple of {2 * self.warps}, found {self.latent} and {self.value}"
            )
        if self.value > self.threads or self.value_rows > _VECTOR_WIDTH:
            raise ValueError(
                f"expected values of at most {self.threads} columns, eight per half warp, found "
                f"{self.value}"
            )
        if self.most_rows > self.warps or self.most_partials % _WARP_SIZE:
            raise ValueError(
                f"expected at most {self.warps} rows and a multiple of 32 partials, found "
                f"{self.most_rows} and {self.most_partials}"
            )
        if self.columns != self.half_warp * _VECTOR_WIDTH:
            raise ValueError(
                f"expected {self.columns} columns for the 16 bytes of half a warp, found "
                f"{self.half_warp * _VECTOR_WIDTH}"
            )

    def rows_per_cta(self, rows: int, heads: int) -> int:
        """Rows that a CTA combines in a launch: a power of two, one while all CTAs run at once."""
        count = 1
        while count < self.most_rows and self.slices * heads * -(-rows // count) > self.most_ctas:
            count *= 2
        return count

    @property
    def half_warp(self) -> int:
        """Lanes that read one row of the value projection."""
        return _WARP_SIZE // 2

    @property
    def columns(self) -> int:
        """Latent columns of a CTA: 16 bytes per lane."""
        return _WARP_SIZE * _LANE_COLUMNS

    @property
    def slices(self) -> int:
        """CTAs that share the latent columns of a head; with values they are a cluster."""
        return self.latent // self.columns

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return _WARP_SIZE * self.warps

    @property
    def value_rows(self) -> int:
        """Columns of the value that half a warp works out."""
        return self.value // (2 * self.warps)
