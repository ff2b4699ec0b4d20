"""Compile-time choices of the kernel that prepares a step of MLA."""

from dataclasses import dataclass

from k3decode.ops.mla.cache_format import CacheFormat

__all__ = ["MlaPrepareConfig"]

_VECTOR_WIDTH = 8
_WARP_COLUMNS = 32 * _VECTOR_WIDTH


@dataclass(frozen=True)
class MlaPrepareConfig:
    """One compiled variant."""

    query_rank: int
    """Columns of the compressed query, the first of a projected row."""
    latent: int
    """Columns of the compressed key and value, which follow."""
    shared: int
    """Columns that are keys only and follow; they are stored as they are."""
    cache_format: CacheFormat
    norm_eps: float

    def __post_init__(self) -> None:
        # Each thread keeps 16 bytes of the row, and no warp has columns of both norms.
        if self.query_rank % _WARP_COLUMNS or self.latent % _WARP_COLUMNS:
            raise ValueError(
                f"expected ranks that are multiples of {_WARP_COLUMNS}, found {self.query_rank} "
                f"and {self.latent}: a warp sums the squares of one norm"
            )
        if self.shared % _VECTOR_WIDTH or not 0 < self.shared <= _WARP_COLUMNS:
            raise ValueError(
                f"expected 8 to {_WARP_COLUMNS} shared columns, a multiple of 8, found "
                f"{self.shared}: one warp copies them"
            )

    @property
    def row(self) -> int:
        """Columns of a cache row."""
        return self.latent + self.shared

    @property
    def used_width(self) -> int:
        """Columns of a projected row that are read; a gate may follow."""
        return self.query_rank + self.row

    @property
    def query_warps(self) -> int:
        """Warps that normalise the query."""
        return self.query_rank // _WARP_COLUMNS

    @property
    def latent_warps(self) -> int:
        """Warps that normalise the key and value."""
        return self.latent // _WARP_COLUMNS

    @property
    def threads(self) -> int:
        """Threads of a CTA, which owns a row; the last warp copies the shared columns."""
        return 32 * (self.query_warps + self.latent_warps + 1)
