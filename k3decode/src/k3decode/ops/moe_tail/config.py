"""Compile-time choices of the MoE tail."""

from dataclasses import dataclass

__all__ = ["MoeTailConfig"]

_VECTOR_WIDTH = 8
_WARP_SIZE = 32
_MAX_THREADS = 1024


@dataclass(frozen=True)
class MoeTailConfig:
    """One compiled variant."""

    width: int
    threads: int = 128
    """Threads of a CTA, each with eight columns of one row."""

    def __post_init__(self) -> None:
        if self.threads % _WARP_SIZE or not 0 < self.threads <= _MAX_THREADS:
            raise ValueError(
                f"expected whole warps, at most 32 of them, found {self.threads} threads"
            )
        if self.width < 1 or self.width % (_VECTOR_WIDTH * self.threads):
            raise ValueError(
                f"expected a multiple of {_VECTOR_WIDTH * self.threads} columns, found "
                f"{self.width}: every thread of a CTA has eight"
            )

    @property
    def parts(self) -> int:
        """CTAs of one row."""
        return self.width // (_VECTOR_WIDTH * self.threads)
