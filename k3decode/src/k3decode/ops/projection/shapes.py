"""Every projection of the decode path: rows and columns of its weight, from the model's numbers."""

from dataclasses import dataclass

from k3decode.dims import K3Dims, K3Shard

__all__ = ["ProjectionShape", "k3_projections"]

_PACKED_ROW_MULTIPLE = 16


@dataclass(frozen=True)
class ProjectionShape:
    """One weight [rows, columns]."""

    rows: int
    columns: int
    fp32_rows: int = 0
    """Leading rows with FP32 outputs."""
    situ: bool = False
    """Whether rows alternate between gate and up."""
    plain_rows: int = 0
    """Leading rows that do not, with `situ`; those with FP32 outputs count too."""

    @property
    def bf16_outputs(self) -> int:
        """Columns of the BF16 output."""
        plain = self.plain_rows if self.situ else self.rows
        return plain - self.fp32_rows + (self.rows - plain) // 2


def k3_projections(dims: K3Dims) -> dict[str, ProjectionShape]:
    """Shards of eight and sixteen ranks, and all weights as a whole."""
    found = {
        f"tp{ranks}_{name}": shape
        for ranks, kinds in (
            (8, (_attention, _moe, _feed_forward, _whole_moe)),
            (16, (_attention, _moe, _feed_forward, _whole_moe)),
            (1, (_attention, _feed_forward)),
        )
        for kind in kinds
        for name, shape in kind(dims, dims.shard(ranks)).items()
    }
    for ranks in (8, 16):
        shapes = _exchanged_moe(dims, dims.shard(ranks))
        found |= {f"tp{ranks}_{name}": shape for name, shape in shapes.items()}
    experts, hidden = dims.num_experts, dims.hidden_size
    found["whole_router_latent"] = ProjectionShape(
        experts + dims.latent_size, hidden, fp32_rows=experts
    )
    found["whole_latent_up"] = ProjectionShape(hidden, dims.latent_size)
    return found


def _attention(dims: K3Dims, shard: K3Shard) -> dict[str, ProjectionShape]:
    heads = shard.num_attention_heads
    channels = heads * dims.kda_head_dim
    packed = 4 * channels + dims.kda_gate_rank + heads
    replicated = dims.q_lora_rank + dims.mla_row
    hidden = dims.hidden_size
    return {
        "kda_in": ProjectionShape(_padded(packed), hidden),
        "f_b": ProjectionShape(channels, dims.kda_gate_rank),
        "mla_in": ProjectionShape(replicated + heads * dims.v_head_dim, hidden),
        "q_b": ProjectionShape(heads * dims.qk_head_dim, dims.q_lora_rank),
        "o_proj": ProjectionShape(hidden, channels),
    }


def _moe(dims: K3Dims, shard: K3Shard) -> dict[str, ProjectionShape]:
    """A rank's rows of what may also be whole."""
    router = _padded(shard.num_experts)
    return {
        "router_latent": ProjectionShape(
            router + shard.latent_size, dims.hidden_size, fp32_rows=router
        ),
        "latent_up": ProjectionShape(shard.hidden_size, dims.latent_size),
    }


def _feed_forward(dims: K3Dims, shard: K3Shard) -> dict[str, ProjectionShape]:
    hidden, shared = dims.hidden_size, shard.shared_intermediate_size
    dense = shard.dense_intermediate_size
    return {
        "shared_gate_up": ProjectionShape(2 * shared, hidden),
        "shared_situ": ProjectionShape(2 * shared, hidden, situ=True),
        "shared_down": ProjectionShape(hidden, shared),
        "dense_situ": ProjectionShape(2 * dense, hidden, situ=True),
        "dense_down": ProjectionShape(hidden, dense),
        "lm_head": ProjectionShape(shard.vocab_size, hidden),
        "logits": ProjectionShape(shard.vocab_size, hidden, fp32_rows=shard.vocab_size),
    }


def _whole_moe(dims: K3Dims, shard: K3Shard) -> dict[str, ProjectionShape]:
    """Router and latents as a whole, packed with a shard of the shared expert."""
    plain = dims.num_experts + dims.latent_size
    shared = shard.shared_intermediate_size
    return {
        "whole_front": ProjectionShape(
            plain + 2 * shared,
            dims.hidden_size,
            fp32_rows=dims.num_experts,
            situ=True,
            plain_rows=plain,
        ),
        "whole_tail": ProjectionShape(dims.hidden_size, dims.latent_size + shared),
    }


def _exchanged_moe(dims: K3Dims, shard: K3Shard) -> dict[str, ProjectionShape]:
    """A rank's rows of everything: their inputs are gathered, and so are their outputs."""
    plain = shard.num_experts + shard.latent_size
    return {
        "own_front": ProjectionShape(
            plain + 2 * shard.shared_intermediate_size,
            dims.hidden_size,
            fp32_rows=shard.num_experts,
            situ=True,
            plain_rows=plain,
        ),
        "own_tail": ProjectionShape(
            shard.hidden_size, dims.latent_size + dims.shared_intermediate_size
        ),
    }


def _padded(rows: int) -> int:
    """Rows of a packed part, padded as the checkpoint loader pads them."""
    return -(-rows // _PACKED_ROW_MULTIPLE) * _PACKED_ROW_MULTIPLE
