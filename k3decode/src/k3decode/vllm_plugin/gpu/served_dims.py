"""Widths of a model from the engine's configuration of it; pure."""

from typing import Any

from k3decode.dims import K3Dims

__all__ = ["served_dims"]


def served_dims(config: Any) -> K3Dims:
    """Read the widths of a text configuration of the type `kimi_linear`.

    Args:
        config: object with the fields of `config.json`.

    Raises:
        ValueError: fields of K3 are missing or have another kind of value.
    """
    try:
        linear = config.linear_attn_config
        inner = int(config.moe_intermediate_size)
        return K3Dims(
            num_hidden_layers=int(config.num_hidden_layers),
            hidden_size=int(config.hidden_size),
            num_attention_heads=int(config.num_attention_heads),
            kda_head_dim=int(linear["head_dim"]),
            kda_conv_taps=int(linear["short_conv_kernel_size"]),
            # The first factor of the decay gate is as wide as a head.
            kda_gate_rank=int(linear["head_dim"]),
            kda_gate_lower_bound=float(linear["gate_lower_bound"]),
            q_lora_rank=int(config.q_lora_rank),
            kv_lora_rank=int(config.kv_lora_rank),
            qk_nope_head_dim=int(config.qk_nope_head_dim),
            qk_rope_head_dim=int(config.qk_rope_head_dim),
            v_head_dim=int(config.v_head_dim),
            num_dense_layers=int(config.first_k_dense_replace),
            dense_intermediate_size=int(config.intermediate_size),
            num_experts=int(config.num_experts),
            num_experts_per_token=int(config.num_experts_per_token),
            routed_scaling_factor=float(config.routed_scaling_factor),
            latent_size=int(config.routed_expert_hidden_size),
            expert_intermediate_size=inner,
            shared_intermediate_size=inner * int(config.num_shared_experts),
            situ_beta=float(config.activation_situ_beta),
            situ_linear_beta=float(config.activation_situ_linear_beta),
            attn_res_block_size=int(config.attn_res_block_size),
            rms_norm_eps=float(config.rms_norm_eps),
            vocab_size=int(config.vocab_size),
            max_position_embeddings=int(config.max_position_embeddings),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"config.json must describe a text model of Kimi K3, found another ({error}): serve "
            "K3, or ask for decode_backend stock"
        ) from error
