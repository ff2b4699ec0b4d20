"""Compile-time choices of the router kernel."""

from dataclasses import dataclass

__all__ = ["RouterConfig"]

_WARP_SIZE = 32
# One warp merges what all warps have chosen.
_MAX_WARPS = 8
_MAX_EXPERTS = 1024


@dataclass(frozen=True)
class RouterConfig:
    """One compiled variant."""

    num_experts: int
    experts_per_token: int
    scaling_factor: float

    def __post_init__(self) -> None:
        # Every lane of the CTA that owns a row keeps the same number of experts in registers.
        if self.num_experts % _WARP_SIZE or not 0 < self.num_experts <= _MAX_EXPERTS:
            raise ValueError(
                f"the number of experts must be a multiple of 32 and at most 1024, found "
                f"{self.num_experts}: one CTA keeps all scores of a row in registers"
            )
        if not 1 <= self.experts_per_token <= _WARP_SIZE:
            raise ValueError(
                f"between 1 and 32 experts per token, found {self.experts_per_token}: "
                "lane i writes choice i"
            )

    @property
    def warps(self) -> int:
        """Warps of a CTA; each has a share of the experts, not fewer than are chosen."""
        lanes = self.num_experts // _WARP_SIZE
        return max(warps for warps in range(1, _MAX_WARPS + 1) if lanes % warps == 0)

    @property
    def experts_per_lane(self) -> int:
        """Experts whose scores one lane keeps."""
        return self.num_experts // (_WARP_SIZE * self.warps)

    @property
    def merged_per_lane(self) -> int:
        """Taken experts that one lane holds when lists are merged, all of them of one list."""
        least = -(-self.warps * self.experts_per_token // _WARP_SIZE)
        return min(
            n for n in range(least, self.experts_per_token + 1) if not self.experts_per_token % n
        )
