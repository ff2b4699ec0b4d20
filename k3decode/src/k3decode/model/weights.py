"""From checkpoint tensors to the weights the op references take."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.model.parameters import parameter_shapes
from k3decode.ops.attn_res.reference import AttnResWeights
from k3decode.ops.dense_mlp.reference import MlpWeights
from k3decode.ops.kda.reference import KdaWeights
from k3decode.ops.latent_moe.reference import MoeWeights
from k3decode.ops.mla.reference import MlaWeights

__all__ = ["LayerWeights", "ModelWeights", "model_weights"]


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one decoder layer."""

    before_attention: AttnResWeights
    attention: KdaWeights | MlaWeights
    after_attention: AttnResWeights
    feed_forward: MlpWeights | MoeWeights


@dataclass(frozen=True)
class ModelWeights:
    """Weights of the whole model."""

    embedding: Tensor
    """[vocabulary, D]"""
    layers: tuple[LayerWeights, ...]
    final: AttnResWeights
    norm: Tensor
    """[D]"""
    lm_head: Tensor
    """[vocabulary, D]"""


def model_weights(tensors: Mapping[str, Tensor], dims: K3Dims) -> ModelWeights:
    """Build the weights of a model from the tensors of a checkpoint.

    Raises:
        ValueError: a tensor is missing, unknown or of another shape; all of them are named.
    """
    _check(tensors, dims)
    return ModelWeights(
        embedding=tensors["model.embed_tokens.weight"],
        layers=tuple(_layer(tensors, dims, i) for i in range(dims.num_hidden_layers)),
        final=_reading(tensors, "model.output_attn_res", None, dims),
        norm=tensors["model.norm.weight"],
        lm_head=tensors["lm_head.weight"],
    )


def _check(tensors: Mapping[str, Tensor], dims: K3Dims) -> None:
    wanted = parameter_shapes(dims)
    missing = sorted(set(wanted) - set(tensors))
    unknown = sorted(set(tensors) - set(wanted))
    misshapen = sorted(
        name for name in set(wanted) & set(tensors) if tuple(tensors[name].shape) != wanted[name]
    )
    if missing or unknown or misshapen:
        raise ValueError(
            f"the checkpoint does not fit its config: missing {missing}, unknown {unknown}, of "
            f"another shape {misshapen}: write it again with k3decode.tiny_checkpoint"
        )


def _reading(
    tensors: Mapping[str, Tensor], name: str, output_norm: str | None, dims: K3Dims
) -> AttnResWeights:
    return AttnResWeights(
        source_norm=tensors[f"{name}_norm.weight"],
        query=tensors[f"{name}_proj.weight"][0],
        output_norm=None if output_norm is None else tensors[f"{output_norm}.weight"],
        eps=dims.rms_norm_eps,
    )


def _layer(tensors: Mapping[str, Tensor], dims: K3Dims, layer: int) -> LayerWeights:
    prefix = f"model.layers.{layer}."
    attention: KdaWeights | MlaWeights
    feed_forward: MlpWeights | MoeWeights
    attention_prefix = prefix + "self_attn."
    if dims.is_mla(layer):
        attention = _mla(tensors, attention_prefix, dims)
    else:
        attention = _kda(tensors, attention_prefix, dims)
    if dims.is_dense(layer):
        feed_forward = _mlp(tensors, prefix + "mlp.", dims)
    else:
        feed_forward = _moe(tensors, prefix + "block_sparse_moe.", dims)
    return LayerWeights(
        before_attention=_reading(
            tensors, prefix + "self_attention_res", prefix + "input_layernorm", dims
        ),
        attention=attention,
        after_attention=_reading(
            tensors, prefix + "mlp_res", prefix + "post_attention_layernorm", dims
        ),
        feed_forward=feed_forward,
    )


def _kda(tensors: Mapping[str, Tensor], prefix: str, dims: K3Dims) -> KdaWeights:
    projections = ("q", "k", "v", "g", "f_a", "b")
    return KdaWeights(
        in_proj=torch.cat([tensors[f"{prefix}{name}_proj.weight"] for name in projections]),
        f_b_proj=tensors[prefix + "f_b_proj.weight"],
        o_proj=tensors[prefix + "o_proj.weight"],
        conv_weight=torch.cat([tensors[f"{prefix}{name}_conv1d.weight"] for name in "qkv"]),
        a_log=tensors[prefix + "A_log"],
        dt_bias=tensors[prefix + "dt_bias"],
        o_norm=tensors[prefix + "o_norm.weight"],
        gate_lower_bound=dims.kda_gate_lower_bound,
        qk_norm_eps=dims.kda_qk_norm_eps,
        norm_eps=dims.rms_norm_eps,
    )


def _mla(tensors: Mapping[str, Tensor], prefix: str, dims: K3Dims) -> MlaWeights:
    projections = ("q_a_proj", "kv_a_proj_with_mqa", "g_proj")
    return MlaWeights(
        in_proj=torch.cat([tensors[f"{prefix}{name}.weight"] for name in projections]),
        q_a_layernorm=tensors[prefix + "q_a_layernorm.weight"],
        q_b_proj=tensors[prefix + "q_b_proj.weight"],
        kv_a_layernorm=tensors[prefix + "kv_a_layernorm.weight"],
        kv_b_proj=tensors[prefix + "kv_b_proj.weight"],
        o_proj=tensors[prefix + "o_proj.weight"],
        num_heads=dims.num_attention_heads,
        nope=dims.qk_nope_head_dim,
        scale=dims.mla_scale,
        norm_eps=dims.rms_norm_eps,
    )


def _mlp(tensors: Mapping[str, Tensor], prefix: str, dims: K3Dims) -> MlpWeights:
    return MlpWeights(
        gate_proj=tensors[prefix + "gate_proj.weight"],
        up_proj=tensors[prefix + "up_proj.weight"],
        down_proj=tensors[prefix + "down_proj.weight"],
        beta=dims.situ_beta,
        linear_beta=dims.situ_linear_beta,
    )


def _moe(tensors: Mapping[str, Tensor], prefix: str, dims: K3Dims) -> MoeWeights:
    return MoeWeights(
        gate=tensors[prefix + "gate.weight"],
        correction_bias=tensors[prefix + "gate.e_score_correction_bias"],
        down_proj=tensors[prefix + "routed_expert_down_proj.weight"],
        norm=tensors[prefix + "routed_expert_norm.weight"],
        up_proj=tensors[prefix + "routed_expert_up_proj.weight"],
        w1=tensors[prefix + "experts.w1.weight"],
        w3=tensors[prefix + "experts.w3.weight"],
        w2=tensors[prefix + "experts.w2.weight"],
        shared=_mlp(tensors, prefix + "shared_experts.", dims),
        top_k=dims.num_experts_per_token,
        scaling_factor=dims.routed_scaling_factor,
        norm_eps=dims.rms_norm_eps,
    )
