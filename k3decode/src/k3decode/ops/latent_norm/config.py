"""Compile-time choices of the latent norm."""

from dataclasses import dataclass

__all__ = ["LatentNormConfig"]

_VECTOR_WIDTH = 8
_WARP_SIZE = 32
_MAX_THREADS = 1024


@dataclass(frozen=True)
class LatentNormConfig:
    """One compiled variant."""

    width: int
    eps: float

    def __post_init__(self) -> None:
        step = _VECTOR_WIDTH * _WARP_SIZE
        if self.width < 1 or self.width % step or self.threads > _MAX_THREADS:
            raise ValueError(
                f"expected a multiple of {step} columns up to {_VECTOR_WIDTH * _MAX_THREADS}, "
                f"found {self.width}: one thread of one CTA keeps eight columns"
            )

    @property
    def threads(self) -> int:
        """Threads of the CTA that owns a row."""
        return self.width // _VECTOR_WIDTH

    @property
    def warps(self) -> int:
        """Warps of that CTA."""
        return self.threads // _WARP_SIZE
