"""A row of the latent cache, as every kernel's configuration counts it."""

from k3decode.ops.mla.cache_format import CacheFormat, element_bytes

__all__ = ["LatentRow"]


class LatentRow:
    """Columns and bytes of a row, for configurations that have these fields."""

    cache_format: CacheFormat
    latent: int
    shared: int

    @property
    def width(self) -> int:
        """Columns of a cache row and of an absorbed query."""
        return self.latent + self.shared

    @property
    def element_bytes(self) -> int:
        """Bytes of one column."""
        return element_bytes(self.cache_format)

    @property
    def row_bytes(self) -> int:
        """Bytes of a cache row."""
        return self.width * self.element_bytes
