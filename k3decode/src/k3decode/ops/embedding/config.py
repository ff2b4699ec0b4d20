"""Compile-time choices of the embedding kernel."""

from dataclasses import dataclass

__all__ = ["EmbeddingConfig"]


_MAX_THREADS = 1024


@dataclass(frozen=True)
class EmbeddingConfig:
    """One compiled variant."""

    hidden_size: int

    def __post_init__(self) -> None:
        if self.hidden_size % 8 or self.threads > _MAX_THREADS:
            raise ValueError(
                f"a row must be a multiple of 8 columns and at most 8192, found "
                f"{self.hidden_size}: one CTA copies one row with 16-byte accesses"
            )

    @property
    def threads(self) -> int:
        """Threads of the CTA that copies a row, each one 16-byte vector."""
        return self.hidden_size // 8
