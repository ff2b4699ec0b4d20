"""Compile-time choices of the exchange in front of the experts."""

from dataclasses import dataclass

from k3decode.ops.router.config import RouterConfig

__all__ = ["FP32_VECTOR", "VECTOR_WIDTH", "ExchangeRouteConfig"]

VECTOR_WIDTH = 8
"""BF16 columns of one access."""

FP32_VECTOR = 4
"""Logits of one access."""

_MAX_RANKS = 16
_WARP_SIZE = 32
_CTA_EXPERTS = _WARP_SIZE * FP32_VECTOR


@dataclass(frozen=True)
class ExchangeRouteConfig(RouterConfig):
    """One compiled variant."""

    ranks: int = 8
    parts: tuple[int, ...] = ()
    """Widths of the BF16 rows that lie side by side, of all ranks: latent and shared activation."""

    def __post_init__(self) -> None:
        if self.num_experts % _CTA_EXPERTS:
            raise ValueError(
                f"expected experts in a multiple of {_CTA_EXPERTS}, found {self.num_experts}: each "
                f"lane of a warp gathers the logits of {FP32_VECTOR}"
            )
        super().__post_init__()
        if not 2 <= self.ranks <= _MAX_RANKS:  # noqa: PLR2004
            raise ValueError(f"expected 2 to {_MAX_RANKS} ranks, found {self.ranks}")
        if self.num_experts % (self.ranks * FP32_VECTOR):
            raise ValueError(
                f"expected lanes whose {FP32_VECTOR} logits are of one rank, found "
                f"{self.num_experts} experts on {self.ranks} ranks"
            )
        if not self.parts or any(width % (self.ranks * VECTOR_WIDTH) for width in self.parts):
            raise ValueError(
                f"expected parts whose vectors {self.ranks} ranks share evenly, found {self.parts}"
            )

    @property
    def warps(self) -> int:
        """Warps of a CTA: every lane has one access of logits."""
        return self.num_experts // _CTA_EXPERTS

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.warps * _WARP_SIZE

    @property
    def width(self) -> int:
        """BF16 columns of a gathered row."""
        return sum(self.parts)

    @property
    def vectors(self) -> int:
        """Accesses of a gathered BF16 row."""
        return self.width // VECTOR_WIDTH

    @property
    def ctas(self) -> int:
        """CTAs of a row: one chooses, the others gather."""
        return 1 + -(-self.vectors // self.threads)

    @property
    def logit_share(self) -> int:
        """Logits that one rank brings."""
        return self.num_experts // self.ranks

    @property
    def row_words(self) -> int:
        """Words of a row in a mailbox: logits, then BF16 columns."""
        return self.num_experts + self.width // 2
