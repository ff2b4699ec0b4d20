"""From a checkpoint's tensors to the weights of a decode step: done once, at load.

Names are the checkpoint's without a layer's prefix. Routed experts come as MXFP4 bytes; everything
else in BF16, but for the tensors that K3 stores in FP32. The result lies on the tensors' device.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.decode.layer_weights import (
    DecodeLayer,
    DensePart,
    KdaPart,
    MlaPart,
    MoePart,
    OwnMoePart,
    ReadingPoint,
)
from k3decode.dims import K3Dims
from k3decode.ops.experts.packing import pack_experts
from k3decode.ops.kda.launch import KdaStepWeights
from k3decode.ops.projection.reference import interleave_gate_up

__all__ = ["ExpertBytes", "OwnRows", "pack_layer", "reading_point"]

_PACKED_ROW_MULTIPLE = 16


@dataclass(frozen=True)
class ExpertBytes:
    """Routed experts of a layer as the checkpoint has them, all uint8."""

    w13: Tensor
    """[E, 2 I, L / 2], gate rows before up rows."""
    w13_scales: Tensor
    """[E, 2 I, L / 32]"""
    w2: Tensor
    """[E, L, I / 2]"""
    w2_scales: Tensor
    """[E, L, I / 32]"""


@dataclass(frozen=True)
class OwnRows:
    """Which rows of router, latent projections and shared expert a rank reads."""

    rank: int
    ranks: int

    def of(self, weight: Tensor) -> Tensor:
        """The rank's rows."""
        share = weight.shape[0] // self.ranks
        return weight[self.rank * share : (self.rank + 1) * share]


def pack_layer(
    tensors: Mapping[str, Tensor],
    experts: ExpertBytes | None,
    dims: K3Dims,
    number: int,
    *,
    own: OwnRows | None = None,
) -> DecodeLayer:
    """Pack one layer.

    Args:
        tensors: the layer's, by name without `model.layers.N.`, without the routed experts.
        experts: of an MoE layer; None for a dense layer.
        dims: widths of the tensors.
        number: 0-based layer number.
        own: which rows of an MoE part are the rank's, whose tensors then are router, latent
            projections and shared expert of all ranks; None for one that reads what it is given.

    Raises:
        KeyError: a tensor is missing.
        ValueError: experts are given for a dense layer, or missing for another.
    """
    if (experts is None) != dims.is_dense(number):
        raise ValueError(
            f"layer {number}: expected routed experts in every layer that is not dense and in no "
            f"other, found {'none' if experts is None else 'some'}"
        )
    return DecodeLayer(
        number=number,
        before=reading_point(tensors, "self_attention_res", "input_layernorm"),
        attention=_mla(tensors, dims) if dims.is_mla(number) else _kda(tensors),
        after=reading_point(tensors, "mlp_res", "post_attention_layernorm"),
        feed_forward=_feed_forward(tensors, experts, own),
    )


def _feed_forward(
    tensors: Mapping[str, Tensor], experts: ExpertBytes | None, own: OwnRows | None
) -> DensePart | MoePart | OwnMoePart:
    if experts is None:
        return _dense(tensors)
    return _moe(tensors, experts) if own is None else _own_moe(tensors, experts, own)


def reading_point(tensors: Mapping[str, Tensor], name: str, output_norm: str) -> ReadingPoint:
    """Weights of one use of AttnRes; the product of norm and query row is exact in FP32."""
    source_norm, query = tensors[f"{name}_norm.weight"], tensors[f"{name}_proj.weight"][0]
    return ReadingPoint(
        direction=source_norm.float() * query.float(),
        output_norm=tensors[f"{output_norm}.weight"],
    )


def _padded(weight: Tensor) -> Tensor:
    """Zero rows behind, up to a multiple of 16."""
    missing = -weight.shape[0] % _PACKED_ROW_MULTIPLE
    return torch.cat([weight, weight.new_zeros(missing, weight.shape[1])])


def _kda(tensors: Mapping[str, Tensor]) -> KdaPart:
    names = ("q", "k", "v", "g", "f_a", "b")
    rows = [tensors[f"self_attn.{name}_proj.weight"] for name in names]
    taps = [tensors[f"self_attn.{name}_conv1d.weight"] for name in "qkv"]
    return KdaPart(
        in_proj=_padded(torch.cat(rows)),
        step=KdaStepWeights(
            f_b=tensors["self_attn.f_b_proj.weight"],
            conv=torch.cat(taps).float(),
            a_log=tensors["self_attn.A_log"].float(),
            dt_bias=tensors["self_attn.dt_bias"].float(),
            o_norm=tensors["self_attn.o_norm.weight"].float(),
        ),
        o_proj=tensors["self_attn.o_proj.weight"],
    )


def _mla(tensors: Mapping[str, Tensor], dims: K3Dims) -> MlaPart:
    names = ("q_a_proj", "kv_a_proj_with_mqa", "g_proj")
    expanded = tensors["self_attn.kv_b_proj.weight"]
    per_head = expanded.view(dims.num_attention_heads, -1, dims.kv_lora_rank)
    return MlaPart(
        in_proj=torch.cat([tensors[f"self_attn.{name}.weight"] for name in names]),
        query_norm=tensors["self_attn.q_a_layernorm.weight"],
        latent_norm=tensors["self_attn.kv_a_layernorm.weight"],
        q_b=tensors["self_attn.q_b_proj.weight"],
        key_up=per_head[:, : dims.qk_nope_head_dim].contiguous(),
        value_up=per_head[:, dims.qk_nope_head_dim :].contiguous(),
        o_proj=tensors["self_attn.o_proj.weight"],
    )


def _dense(tensors: Mapping[str, Tensor]) -> DensePart:
    return DensePart(
        gate_up=interleave_gate_up(tensors["mlp.gate_proj.weight"], tensors["mlp.up_proj.weight"]),
        down=tensors["mlp.down_proj.weight"],
    )


def _moe(tensors: Mapping[str, Tensor], experts: ExpertBytes) -> MoePart:
    part = "block_sparse_moe."
    shared = [tensors[f"{part}shared_experts.{name}_proj.weight"] for name in ("gate", "up")]
    router = tensors[f"{part}gate.weight"]
    latent_down = tensors[f"{part}routed_expert_down_proj.weight"]
    tail = [f"{part}routed_expert_up_proj.weight", f"{part}shared_experts.down_proj.weight"]
    return MoePart(
        front=torch.cat([router, latent_down, interleave_gate_up(*shared)]),
        correction_bias=tensors[f"{part}gate.e_score_correction_bias"].float(),
        experts=pack_experts(experts.w13, experts.w13_scales, experts.w2, experts.w2_scales),
        latent_norm=tensors[f"{part}routed_expert_norm.weight"],
        tail=torch.cat([tensors[name] for name in tail], dim=1),
    )


def _own_moe(tensors: Mapping[str, Tensor], experts: ExpertBytes, own: OwnRows) -> OwnMoePart:
    part = "block_sparse_moe."
    shared = [
        own.of(tensors[f"{part}shared_experts.{name}_proj.weight"]) for name in ("gate", "up")
    ]
    router = own.of(tensors[f"{part}gate.weight"])
    latent_down = own.of(tensors[f"{part}routed_expert_down_proj.weight"])
    tail = [f"{part}routed_expert_up_proj.weight", f"{part}shared_experts.down_proj.weight"]
    return OwnMoePart(
        front=torch.cat([router, latent_down, interleave_gate_up(*shared)]),
        correction_bias=tensors[f"{part}gate.e_score_correction_bias"].float(),
        experts=pack_experts(experts.w13, experts.w13_scales, experts.w2, experts.w2_scales),
        latent_norm=tensors[f"{part}routed_expert_norm.weight"],
        tail=torch.cat([own.of(tensors[name]) for name in tail], dim=1),
    )
