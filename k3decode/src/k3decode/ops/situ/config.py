"""Compile-time choices of the SiTU kernel."""

from dataclasses import dataclass

__all__ = ["SituConfig"]

_WARP_SIZE = 32
_MAX_THREADS = 1024


@dataclass(frozen=True)
class SituConfig:
    """One compiled variant; the width is given at launch."""

    beta: float
    linear_beta: float
    threads: int = 128
    """Threads of a CTA, each with eight columns of one row."""

    def __post_init__(self) -> None:
        if self.beta <= 0 or self.linear_beta <= 0:
            raise ValueError(
                f"expected positive bounds, found {self.beta} and {self.linear_beta}: SiTU divides "
                "by them"
            )
        if self.threads % _WARP_SIZE or not 0 < self.threads <= _MAX_THREADS:
            raise ValueError(
                f"expected whole warps, at most 32 of them, found {self.threads} threads"
            )
