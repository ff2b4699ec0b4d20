"""Names and shapes of a checkpoint's tensors; pure, no tensors here.

Names follow the released checkpoint without its `language_model.` prefix, except that the routed
experts of a layer are stacked in three plain tensors instead of packed one by one.
"""

from k3decode.dims import K3Dims

__all__ = ["Shape", "parameter_shapes"]

Shape = tuple[int, ...]


def parameter_shapes(dims: K3Dims) -> dict[str, Shape]:
    """Every tensor of a checkpoint in file order: name -> shape."""
    shapes: dict[str, Shape] = {"model.embed_tokens.weight": (dims.vocab_size, dims.hidden_size)}
    for layer in range(dims.num_hidden_layers):
        prefix = f"model.layers.{layer}."
        parts = _norms(dims)
        parts |= _mla(dims) if dims.is_mla(layer) else _kda(dims)
        parts |= (
            _mlp("mlp.", dims, dims.dense_intermediate_size)
            if dims.is_dense(layer)
            else (_moe(dims))
        )
        shapes |= {prefix + name: shape for name, shape in parts.items()}
    return shapes | {
        "model.output_attn_res_norm.weight": (dims.hidden_size,),
        "model.output_attn_res_proj.weight": (1, dims.hidden_size),
        "model.norm.weight": (dims.hidden_size,),
        "lm_head.weight": (dims.vocab_size, dims.hidden_size),
    }


def _norms(dims: K3Dims) -> dict[str, Shape]:
    return {
        "input_layernorm.weight": (dims.hidden_size,),
        "post_attention_layernorm.weight": (dims.hidden_size,),
        "self_attention_res_norm.weight": (dims.hidden_size,),
        "self_attention_res_proj.weight": (1, dims.hidden_size),
        "mlp_res_norm.weight": (dims.hidden_size,),
        "mlp_res_proj.weight": (1, dims.hidden_size),
    }


def _kda(dims: K3Dims) -> dict[str, Shape]:
    width, hidden, heads = dims.kda_width, dims.hidden_size, dims.num_attention_heads
    shapes: dict[str, Shape] = {f"self_attn.{n}_proj.weight": (width, hidden) for n in "qkvg"}
    shapes |= {f"self_attn.{n}_conv1d.weight": (width, dims.kda_conv_taps) for n in "qkv"}
    return shapes | {
        "self_attn.f_a_proj.weight": (dims.kda_gate_rank, hidden),
        "self_attn.f_b_proj.weight": (width, dims.kda_gate_rank),
        "self_attn.b_proj.weight": (heads, hidden),
        "self_attn.o_proj.weight": (hidden, width),
        "self_attn.A_log": (heads,),
        "self_attn.dt_bias": (width,),
        "self_attn.o_norm.weight": (dims.kda_head_dim,),
    }


def _mla(dims: K3Dims) -> dict[str, Shape]:
    hidden, heads = dims.hidden_size, dims.num_attention_heads
    expanded = heads * (dims.qk_nope_head_dim + dims.v_head_dim)
    return {
        "self_attn.q_a_proj.weight": (dims.q_lora_rank, hidden),
        "self_attn.q_a_layernorm.weight": (dims.q_lora_rank,),
        "self_attn.q_b_proj.weight": (heads * dims.qk_head_dim, dims.q_lora_rank),
        "self_attn.kv_a_proj_with_mqa.weight": (dims.mla_row, hidden),
        "self_attn.kv_a_layernorm.weight": (dims.kv_lora_rank,),
        "self_attn.kv_b_proj.weight": (expanded, dims.kv_lora_rank),
        "self_attn.g_proj.weight": (heads * dims.v_head_dim, hidden),
        "self_attn.o_proj.weight": (hidden, heads * dims.v_head_dim),
    }


def _mlp(prefix: str, dims: K3Dims, inner: int) -> dict[str, Shape]:
    return {
        f"{prefix}gate_proj.weight": (inner, dims.hidden_size),
        f"{prefix}up_proj.weight": (inner, dims.hidden_size),
        f"{prefix}down_proj.weight": (dims.hidden_size, inner),
    }


def _moe(dims: K3Dims) -> dict[str, Shape]:
    experts, inner, latent = dims.num_experts, dims.expert_intermediate_size, dims.latent_size
    part = "block_sparse_moe."
    return {
        f"{part}gate.weight": (experts, dims.hidden_size),
        f"{part}gate.e_score_correction_bias": (experts,),
        f"{part}routed_expert_down_proj.weight": (latent, dims.hidden_size),
        f"{part}routed_expert_norm.weight": (latent,),
        f"{part}routed_expert_up_proj.weight": (dims.hidden_size, latent),
        f"{part}experts.w1.weight": (experts, inner, latent),
        f"{part}experts.w3.weight": (experts, inner, latent),
        f"{part}experts.w2.weight": (experts, latent, inner),
        **_mlp(f"{part}shared_experts.", dims, dims.shared_intermediate_size),
    }
