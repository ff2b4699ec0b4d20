"""The numbers of Kimi K3, and small stand-ins of the same shape: their only home.

Widths are logical (whole model, one rank). Everything else in the package takes a `K3Dims`, so that
one piece of code serves the real widths and the widths a two-core machine can serve.
"""

from dataclasses import dataclass, fields
from math import gcd

__all__ = ["K3Dims", "K3Shard", "ShardError", "tiny"]


class ShardError(ValueError):
    """A number of ranks does not divide a model."""


@dataclass(frozen=True)
class K3Shard:
    """What one of several tensor-parallel ranks has of each width that is divided among them.

    Not here is what every rank has whole: the decay gate's first factor, MLA's compressed query and
    cache row, and all norms.
    """

    ranks: int
    num_attention_heads: int
    """Heads of KDA and of MLA."""
    dense_intermediate_size: int
    num_experts: int
    """Router rows; the logits are gathered."""
    latent_size: int
    """Rows of the latent down-projection; the latent row is gathered."""
    expert_intermediate_size: int
    """Of every expert; the latent sums are added over the ranks."""
    shared_intermediate_size: int
    hidden_size: int
    """Rows of the latent up-projection; the hidden row is gathered."""
    vocab_size: int
    """Rows of embedding and LM head."""


@dataclass(frozen=True)
class K3Dims:
    """Shape of one K3-like text model; the defaults are the released model's values."""

    num_hidden_layers: int = 93
    """Decoder layers, KDA and MLA together."""
    mla_period: int = 4
    """Every `mla_period`-th layer is MLA, and so is the last one; all others are KDA."""
    hidden_size: int = 7168
    """D, width of the residual stream."""
    num_attention_heads: int = 96
    """H, heads of KDA and of MLA."""
    kda_head_dim: int = 128
    """K = V, width of one KDA head."""
    kda_conv_taps: int = 4
    """Width of the short convolution; one tap less is stored between steps."""
    kda_gate_rank: int = 128
    """Width between the two factors of the decay gate."""
    kda_gate_lower_bound: float = -5.0
    """Most negative log decay of one step; decay is exp of a value in (bound, 0)."""
    kda_qk_norm_eps: float = 1e-6
    """Added to the sum of squares of queries and keys; a literal of the op, not a config value."""
    q_lora_rank: int = 1536
    """Width of the compressed MLA query."""
    kv_lora_rank: int = 512
    """L, width of the compressed MLA key-value row."""
    qk_nope_head_dim: int = 128
    """Part of an MLA head's query and key that comes from the compressed row."""
    qk_rope_head_dim: int = 64
    """Part of an MLA query and key shared by all heads; used unrotated."""
    v_head_dim: int = 128
    """Width of one MLA value head."""
    num_dense_layers: int = 1
    """Leading layers whose feed-forward part is dense instead of latent MoE."""
    dense_intermediate_size: int = 33792
    """Inner width of the dense feed-forward part."""
    num_experts: int = 896
    """E, routed experts of a layer."""
    num_experts_per_token: int = 16
    """Experts chosen for each token."""
    routed_scaling_factor: float = 1.0
    """Factor on the renormalised expert weights."""
    latent_size: int = 3584
    """Width the routed experts work on."""
    expert_intermediate_size: int = 3072
    """I, inner width of one routed expert."""
    shared_intermediate_size: int = 6144
    """Inner width of the fused shared expert, which sees the full hidden row."""
    situ_beta: float = 4.0
    """Bound of the gate factor of the SiTU activation."""
    situ_linear_beta: float = 25.0
    """Bound of the linear factor of the SiTU activation."""
    attn_res_block_size: int = 12
    """Layers between two residual blocks of AttnRes."""
    rms_norm_eps: float = 1e-5
    """Added to the mean square in every RMSNorm."""
    vocab_size: int = 163840
    """Rows of the embedding and of the untied LM head."""
    max_position_embeddings: int = 1048576
    """Longest sequence in tokens; no op of the model depends on positions."""

    def __post_init__(self) -> None:
        if self.num_hidden_layers < 1 or self.attn_res_block_size < 1 or self.mla_period < 1:
            raise ValueError(
                f"a model needs at least one layer, a block size and an MLA period, found "
                f"{self.num_hidden_layers}, {self.attn_res_block_size}, {self.mla_period}: "
                "give positive counts"
            )
        if not 1 <= self.num_experts_per_token <= self.num_experts:
            raise ValueError(
                f"a token goes to between 1 and {self.num_experts} experts, found "
                f"{self.num_experts_per_token}: lower num_experts_per_token"
            )
        if self.kda_conv_taps <= 1:
            raise ValueError(
                f"the short convolution needs at least two taps, found {self.kda_conv_taps}: "
                "one tap would keep no state"
            )

    def shard(self, ranks: int) -> K3Shard:
        """Widths of one rank.

        Raises:
            ShardError: the ranks do not divide all that is divided among them.
        """
        names = [field.name for field in fields(K3Shard) if field.name != "ranks"]
        widths = {name: int(getattr(self, name)) for name in names}
        if ranks < 1 or (uneven := [name for name in names if widths[name] % ranks]):
            words = ", ".join(f"{name} {widths[name]}" for name in (uneven if ranks > 0 else names))
            raise ShardError(
                f"expected a number of ranks that divides {words}, found {ranks}: take a divisor "
                f"of {gcd(*widths.values())}"
            )
        return K3Shard(ranks=ranks, **{name: width // ranks for name, width in widths.items()})

    def is_mla(self, layer: int) -> bool:
        """Whether a 0-based layer is MLA; the last layer always is."""
        return (layer + 1) % self.mla_period == 0 or layer == self.num_hidden_layers - 1

    def is_dense(self, layer: int) -> bool:
        """Whether a 0-based layer has the dense feed-forward part."""
        return layer < self.num_dense_layers

    @property
    def num_residual_blocks(self) -> int:
        """Residual blocks written during one pass, the embedding's included."""
        return -(-self.num_hidden_layers // self.attn_res_block_size)

    @property
    def kda_width(self) -> int:
        """Channels of all heads together, for each of q, k, v and gate."""
        return self.num_attention_heads * self.kda_head_dim

    @property
    def qk_head_dim(self) -> int:
        """Width of one MLA query head."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def mla_row(self) -> int:
        """Width of the one cache row per token that absorbed MLA reads."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    @property
    def mla_scale(self) -> float:
        """Softmax scale of MLA: one over the root of the query width before absorption."""
        return float(self.qk_head_dim**-0.5)


def tiny() -> K3Dims:
    """K3's skeleton at widths a laptop serves: eight layers, two residual blocks, two MLA layers.

    The absorbed row (112 + 16) is as wide as four unabsorbed keys (4 x (16 + 16)), so that both
    backends ask the engine for cache pages of one size.
    """
    return K3Dims(
        num_hidden_layers=8,
        hidden_size=128,
        num_attention_heads=4,
        kda_head_dim=32,
        kda_gate_rank=16,
        q_lora_rank=64,
        kv_lora_rank=112,
        qk_nope_head_dim=16,
        qk_rope_head_dim=16,
        v_head_dim=16,
        dense_intermediate_size=256,
        num_experts=16,
        num_experts_per_token=4,
        latent_size=64,
        expert_intermediate_size=64,
        shared_intermediate_size=128,
        attn_res_block_size=4,
        vocab_size=1024,
        max_position_embeddings=4096,
    )
