"""Folder of a text-only K3 with one rank's widths, from which vLLM makes dummy weights.

vLLM then runs a whole model of these widths on one GPU, with tensor parallelism of one: shapes of
kernels are a rank's, and there is nobody to exchange anything with.
"""

import json
from pathlib import Path
from typing import Any

from k3decode.dims import K3Dims

__all__ = ["stock_config", "write_stock_model"]

_NO_TOKEN = 0


def stock_config(dims: K3Dims, *, layers: int, longest: int) -> dict[str, Any]:
    """`config.json` of vLLM's text class.

    Args:
        dims: widths of the rank, which has router and latent projections whole.
        layers: how many decoder layers; which of them are MLA does not depend on their number.
        longest: most tokens of a request.
    """
    mla = [number for number in range(layers) if (number + 1) % dims.mla_period == 0]
    heads = dims.num_attention_heads
    return {
        "architectures": ["KimiLinearForCausalLM"],
        "model_type": "kimi_linear",
        "dtype": "bfloat16",
        "num_hidden_layers": layers,
        "hidden_size": dims.hidden_size,
        "vocab_size": dims.vocab_size,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": dims.qk_head_dim,
        "rms_norm_eps": dims.rms_norm_eps,
        "max_position_embeddings": longest,
        "tie_word_embeddings": False,
        "bos_token_id": _NO_TOKEN,
        "eos_token_id": _NO_TOKEN,
        "pad_token_id": _NO_TOKEN,
        **_feed_forward(dims),
        "q_lora_rank": dims.q_lora_rank,
        "kv_lora_rank": dims.kv_lora_rank,
        "qk_nope_head_dim": dims.qk_nope_head_dim,
        "qk_rope_head_dim": dims.qk_rope_head_dim,
        "v_head_dim": dims.v_head_dim,
        "mla_use_nope": True,
        "mla_use_output_gate": True,
        # Layer numbers count from 1 there.
        "linear_attn_config": {
            "kda_layers": [number + 1 for number in range(layers) if number not in mla],
            "full_attn_layers": [number + 1 for number in mla],
            "num_heads": heads,
            "head_dim": dims.kda_head_dim,
            "short_conv_kernel_size": dims.kda_conv_taps,
            "use_full_rank_gate": True,
            "gate_lower_bound": dims.kda_gate_lower_bound,
        },
        "attn_res_block_size": dims.attn_res_block_size,
        # The multimodal class turns K3's own format into this; the text class must say it.
        "quantization_config": {"quant_method": "mxfp4"},
    }


def _feed_forward(dims: K3Dims) -> dict[str, Any]:
    shared, rest = divmod(dims.shared_intermediate_size, dims.expert_intermediate_size)
    if rest:
        raise ValueError(
            f"expected a shared width that is a multiple of {dims.expert_intermediate_size}, the "
            f"width of an expert, found {dims.shared_intermediate_size}: vLLM counts shared experts"
        )
    return {
        "hidden_act": "situ",
        "activation_situ_beta": dims.situ_beta,
        "activation_situ_linear_beta": dims.situ_linear_beta,
        "intermediate_size": dims.dense_intermediate_size,
        "first_k_dense_replace": dims.num_dense_layers,
        "moe_layer_freq": 1,
        "num_experts": dims.num_experts,
        "num_experts_per_token": dims.num_experts_per_token,
        "moe_intermediate_size": dims.expert_intermediate_size,
        "num_shared_experts": shared,
        "routed_expert_hidden_size": dims.latent_size,
        "latent_moe_use_norm": True,
        "moe_router_activation_func": "sigmoid",
        "moe_renormalize": True,
        "routed_scaling_factor": dims.routed_scaling_factor,
        "use_grouped_topk": True,
        "num_expert_group": 1,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "num_nextn_predict_layers": 0,
    }


def write_stock_model(folder: Path, dims: K3Dims, *, layers: int, longest: int) -> None:
    """Write the folder; it has no weights and no tokenizer.

    Args:
        folder: made if it is missing.
        dims: widths of the rank.
        layers: how many decoder layers.
        longest: most tokens of a request.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = stock_config(dims, layers=layers, longest=longest)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), _NO_TOKEN)
    (folder / "generation_config.json").write_text(json.dumps(ends) + "\n")
