"""Compile-time choices of the KDA decode kernel."""

from dataclasses import dataclass

__all__ = ["KdaConfig"]

_WARP_SIZE = 32
_MAX_WARPS = 32


@dataclass(frozen=True)
class KdaConfig:
    """One compiled variant for one number of local heads."""

    heads: int
    """Heads of this rank."""
    head_dim: int
    gate_rank: int
    conv_taps: int
    gate_lower_bound: float
    qk_norm_eps: float
    norm_eps: float
    warps: int = 16
    """Warps of the CTA that owns one head of one row; each takes head_dim / warps value rows."""

    def __post_init__(self) -> None:
        # Each lane keeps four key channels of a state row: 16 bytes, one access.
        if self.head_dim != 4 * _WARP_SIZE or self.gate_rank != self.head_dim:
            raise ValueError(
                f"head width and gate rank must be 128, found {self.head_dim} and "
                f"{self.gate_rank}: one warp reads one state row with 16 bytes per lane"
            )
        if self.warps > _MAX_WARPS or self.head_dim % self.warps or self.threads < self.qkv_width:
            raise ValueError(
                f"12 to 32 warps that divide {self.head_dim}, found {self.warps}: one thread "
                "convolves one channel"
            )

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.warps * _WARP_SIZE

    @property
    def qkv_width(self) -> int:
        """Query, key and value channels of one head."""
        return 3 * self.head_dim

    @property
    def rows_per_warp(self) -> int:
        """State rows (value channels) that one warp keeps in registers."""
        return self.head_dim // self.warps

    @property
    def channels(self) -> int:
        """Local channels of each of q, k, v and the output gate."""
        return self.heads * self.head_dim

    @property
    def projection_width(self) -> int:
        """Columns of the packed projection that are used: q | k | v | gate | f_a | beta."""
        return 4 * self.channels + self.gate_rank + self.heads
