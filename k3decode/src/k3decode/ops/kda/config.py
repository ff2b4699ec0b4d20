"""Compile-time choices of the KDA decode kernel."""

from dataclasses import dataclass

__all__ = ["MAX_TOKENS", "KdaConfig"]

_WARP_SIZE = 32
_MAX_WARPS = 32

MAX_TOKENS = 8
"""Most tokens of one request in a launch: one and seven drafts."""


@dataclass(frozen=True)
class KdaConfig:
    """One compiled variant for one number of local heads and of tokens per request."""

    heads: int
    """Heads of this rank."""
    head_dim: int
    gate_rank: int
    conv_taps: int
    gate_lower_bound: float
    qk_norm_eps: float
    norm_eps: float
    tokens: int = 1
    """Tokens of each request in one launch: one and its drafts, which are verified in order."""
    warps: int = 16
    """Warps that own a head of a request; each takes head_dim / warps value rows."""
    split: int = 1
    """CTAs that share these warps; more than one only without drafts."""

    def __post_init__(self) -> None:
        # Each lane keeps four key channels of a state row: 16 bytes, one access.
        if self.head_dim != 4 * _WARP_SIZE or self.gate_rank != self.head_dim:
            raise ValueError(
                f"head width and gate rank must be 128, found {self.head_dim} and "
                f"{self.gate_rank}: one warp reads one state row with 16 bytes per lane"
            )
        if (
            self.warps > _MAX_WARPS
            or self.head_dim % self.warps
            or self.threads * self.split < self.qkv_width
        ):
            raise ValueError(
                f"12 to 32 warps that divide {self.head_dim}, found {self.warps}: one thread "
                "convolves one channel"
            )
        if self.split not in {1, 2, 4} or (self.split > 1 and self.tokens > 1):
            raise ValueError(
                f"1, 2 or 4 CTAs for a head without drafts and one with them, found {self.split} "
                f"with {self.tokens} tokens: drafts are ended by different warps of one CTA"
            )
        if not 1 <= self.tokens <= MAX_TOKENS:
            raise ValueError(
                f"1 to {MAX_TOKENS} tokens per request, found {self.tokens}: split the drafts"
            )

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.warps * _WARP_SIZE // self.split

    @property
    def ctas_per_sm(self) -> int:
        """CTAs whose registers fit an SM; with drafts, or as one of several, a CTA keeps more."""
        return 2 if self.tokens == 1 and self.split == 1 else self.split

    @property
    def cta_rows(self) -> int:
        """Value rows of a CTA, and channels of each of q, k, v and decay that it computes."""
        return self.head_dim // self.split

    @property
    def lane_rows(self) -> int:
        """Outputs of a CTA that one lane of a warp ends."""
        return self.cta_rows // _WARP_SIZE

    @property
    def qkv_width(self) -> int:
        """Query, key and value channels of one head."""
        return 3 * self.head_dim

    @property
    def rows_per_warp(self) -> int:
        """State rows (value channels) that one warp keeps in registers."""
        return self.head_dim // self.warps

    @property
    def window(self) -> int:
        """Stored taps of a request: what the oldest token that may be accepted needs, and on."""
        return self.conv_taps - 2 + self.tokens

    @property
    def channels(self) -> int:
        """Local channels of each of q, k, v and the output gate."""
        return self.heads * self.head_dim

    @property
    def projection_width(self) -> int:
        """Columns of the packed projection that are used: q | k | v | gate | f_a | beta."""
        return 4 * self.channels + self.gate_rank + self.heads
