"""Compile-time choices of the router kernel."""

from dataclasses import dataclass

__all__ = ["RouterConfig"]

_WARP_SIZE = 32
_MAX_EXPERTS_PER_LANE = 32


@dataclass(frozen=True)
class RouterConfig:
    """One compiled variant."""

    num_experts: int
    experts_per_token: int
    scaling_factor: float

    def __post_init__(self) -> None:
        # One warp owns a row: every lane keeps the same number of experts in registers.
        if self.num_experts % _WARP_SIZE or self.experts_per_lane > _MAX_EXPERTS_PER_LANE:
            raise ValueError(
                f"the number of experts must be a multiple of 32 and at most 1024, found "
                f"{self.num_experts}: one warp keeps all scores of a row in registers"
            )
        if not 1 <= self.experts_per_token <= _WARP_SIZE:
            raise ValueError(
                f"between 1 and 32 experts per token, found {self.experts_per_token}: "
                "lane i writes choice i"
            )

    @property
    def experts_per_lane(self) -> int:
        """Experts whose scores one lane keeps."""
        return self.num_experts // _WARP_SIZE
