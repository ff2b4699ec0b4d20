"""Compile-time choices of the AttnRes kernel."""

from dataclasses import dataclass

__all__ = ["VECTOR_WIDTH", "AttnResConfig"]

VECTOR_WIDTH = 8
"""BF16 values of a row that one thread holds: one 16-byte access."""

_WARP_COLUMNS = 32 * VECTOR_WIDTH
# One value per warp of a row fits the lanes of a warp.
_MAX_WARPS = 32
# The largest cluster that every GPU can place.
_MAX_CTAS = 8


@dataclass(frozen=True)
class AttnResConfig:
    """One compiled variant; see `launch.variants` for those K3 uses."""

    hidden_size: int
    blocks: int
    """Finished blocks that are sources; the prefix is always one more."""
    has_pending: bool
    """Whether a branch output is added to the prefix first."""
    write_block: int | None
    """Block that receives the updated prefix."""
    reset: bool
    """Whether the branch output replaces the prefix instead of adding to it."""
    output_norm: bool
    """Whether the mixture is normalised and weighted."""
    eps: float

    def __post_init__(self) -> None:
        # Sums over a row are taken per warp first, so whole warps must cover it.
        if self.hidden_size % _WARP_COLUMNS or self.hidden_size > _MAX_WARPS * _WARP_COLUMNS:
            raise ValueError(
                f"a row must be a multiple of 256 columns and at most 8192, found "
                f"{self.hidden_size}: this kernel keeps one row in one cluster"
            )
        if self.reset and not self.has_pending:
            raise ValueError("a reset needs the branch output that replaces the prefix")
        if self.sources > _MAX_WARPS:
            raise ValueError(
                f"at most {_MAX_WARPS - 1} blocks, found {self.blocks}: one lane scores one source"
            )

    @property
    def sources(self) -> int:
        """Rows that are mixed: finished blocks and the prefix."""
        return self.blocks + 1

    @property
    def ctas(self) -> int:
        """CTAs of the cluster that owns a row: seven for K3's 28 warps of columns."""
        warps = self.hidden_size // _WARP_COLUMNS
        return max(ctas for ctas in range(1, _MAX_CTAS + 1) if warps % ctas == 0)

    @property
    def threads(self) -> int:
        """Threads of one CTA."""
        return self.hidden_size // (VECTOR_WIDTH * self.ctas)
