"""Compile-time choices of the AttnRes kernel."""

from dataclasses import dataclass

__all__ = ["VECTOR_WIDTH", "AttnResConfig"]

VECTOR_WIDTH = 8
"""BF16 values of a row that one thread holds: one 16-byte access."""

_MAX_THREADS = 1024


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
        # The CTA reduces in two steps of one warp each, so whole warps must cover the row.
        if self.hidden_size % (32 * VECTOR_WIDTH) or self.threads > _MAX_THREADS:
            raise ValueError(
                f"a row must be a multiple of 256 columns and at most 8192, found "
                f"{self.hidden_size}: this kernel keeps one row in one CTA"
            )
        if self.reset and not self.has_pending:
            raise ValueError("a reset needs the branch output that replaces the prefix")

    @property
    def threads(self) -> int:
        """Threads of the CTA that owns a row."""
        return self.hidden_size // VECTOR_WIDTH
