"""From the layers of the engine's model to the weights of a decode step.

What both read in one order is one tensor. Router and latent-down are moved into our front matrix,
of which the engine's parameters become rows. What the engine needs in another order is there twice,
and its bytes are counted.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from k3decode.decode.layer_weights import (
    DecodeLayer,
    DensePart,
    KdaPart,
    MlaPart,
    ModelEnds,
    MoePart,
    ReadingPoint,
)
from k3decode.dims import K3Dims
from k3decode.ops.experts.packing import PackedExperts
from k3decode.ops.kda.launch import KdaStepWeights
from k3decode.ops.projection.reference import interleave_gate_up

__all__ = ["EngineWeights", "engine_ends", "engine_layer", "is_kda"]


@dataclass(frozen=True)
class EngineWeights:
    """Weights of one layer, and what of them is there twice."""

    layer: DecodeLayer
    twice_bytes: int
    """Bytes of weights that the engine keeps in an order of its own."""


def is_kda(attention: Any) -> bool:
    """Whether an attention module of the engine is KDA; else it is MLA."""
    return hasattr(attention, "in_proj_qkvgfab")


def engine_layer(
    layer: Any, number: int, experts: PackedExperts | None, dims: K3Dims
) -> EngineWeights:
    """Weights of one decoder layer.

    Args:
        layer: the engine's module, loaded.
        number: 0-based.
        experts: packed; None for a dense layer.
        dims: widths of the rank.

    Raises:
        ValueError: a weight has another shape or format than the kernels read.
    """
    taken = _Taken(number)
    attention = layer.self_attn
    found = DecodeLayer(
        number=number,
        before=_reading(layer, "self_attention_res", "input_layernorm", taken),
        attention=_kda(attention, dims, taken)
        if is_kda(attention)
        else _mla(attention, dims, taken),
        after=_reading(layer, "mlp_res", "post_attention_layernorm", taken),
        feed_forward=_dense(layer.mlp, dims, taken)
        if experts is None
        else _moe(layer.mlp, experts, dims, taken),
    )
    taken.finish()
    return EngineWeights(found, taken.twice_bytes)


def engine_ends(model: Any, dims: K3Dims) -> ModelEnds:
    """Embedding and last AttnRes; norm and LM head stay the engine's.

    Args:
        model: the engine's class for causal language models, loaded.
        dims: widths of the rank.

    Raises:
        ValueError: a weight has another shape or format than the kernels read.
    """
    taken = _Taken(None)
    body = model.model
    embedding = taken.weight(body.embed_tokens, (None, dims.hidden_size))
    final = _reading(body, "output_attn_res", "norm", taken)
    lm_head = taken.weight(model.lm_head, (None, dims.hidden_size))
    taken.finish()
    return ModelEnds(embedding=embedding, final=final, lm_head=lm_head)


class _Taken:
    """Takes tensors of modules, and collects what is wrong with them."""

    def __init__(self, number: int | None) -> None:
        self._where = "model" if number is None else f"layer {number}"
        self._problems: list[str] = []
        self.twice_bytes = 0

    def weight(self, module: Any, shape: tuple[int | None, ...]) -> Tensor:
        """The BF16 weight of a module."""
        return self.checked(type(module).__name__, module.weight.data, shape, torch.bfloat16)

    def checked(
        self, name: str, tensor: Tensor, shape: tuple[int | None, ...], dtype: torch.dtype
    ) -> Tensor:
        """A tensor of a shape and format."""
        fits = tensor.ndim == len(shape) and all(
            wanted is None or wanted == found
            for wanted, found in zip(shape, tensor.shape, strict=True)
        )
        if not fits or tensor.dtype != dtype:
            wanted = ["any" if extent is None else extent for extent in shape]
            self._problems.append(
                f"{name}: expected {wanted} in {dtype}, found {list(tensor.shape)} in "
                f"{tensor.dtype}"
            )
        return tensor

    def twice(self, copy: Tensor) -> Tensor:
        """A copy of what the engine keeps."""
        self.twice_bytes += copy.numel() * copy.element_size()
        return copy

    def finish(self) -> None:
        """Report everything that was wrong."""
        if self._problems:
            raise ValueError(
                f"{self._where}: {'; '.join(self._problems)}: ask for decode_backend stock"
            )


def _reading(owner: Any, name: str, output_norm: str, taken: _Taken) -> ReadingPoint:
    norm, query = getattr(owner, f"{name}_norm").weight.data, getattr(owner, f"{name}_proj")
    return ReadingPoint(
        direction=norm.float() * query.weight.data[0].float(),
        output_norm=taken.weight(getattr(owner, output_norm), (norm.shape[0],)),
    )


def _kda(attention: Any, dims: K3Dims, taken: _Taken) -> KdaPart:
    channels, heads, fp32 = dims.kda_width, dims.num_attention_heads, torch.float32
    conv = attention.conv1d.weight.data
    return KdaPart(
        in_proj=taken.weight(attention.in_proj_qkvgfab, (None, dims.hidden_size)),
        step=KdaStepWeights(
            f_b=taken.weight(attention.f_b_proj, (channels, dims.kda_gate_rank)),
            conv=taken.checked("conv1d", conv.flatten(1), (3 * channels, dims.kda_conv_taps), fp32),
            a_log=taken.checked("A_log", attention.A_log.data, (heads,), fp32),
            dt_bias=taken.checked("dt_bias", attention.dt_bias.data, (channels,), fp32),
            o_norm=attention.o_norm.weight.data.float(),
        ),
        o_proj=taken.weight(attention.o_proj, (dims.hidden_size, channels)),
    )


def _mla(attention: Any, dims: K3Dims, taken: _Taken) -> MlaPart:
    heads, values = dims.num_attention_heads, dims.num_attention_heads * dims.v_head_dim
    rows = dims.q_lora_rank + dims.mla_row + values
    expanded = heads * (dims.qk_nope_head_dim + dims.v_head_dim)
    up = taken.weight(attention.kv_b_proj, (expanded, dims.kv_lora_rank))
    per_head = up.unflatten(0, (heads, -1))
    return MlaPart(
        in_proj=taken.weight(attention.fused_qkv_a_g_proj, (rows, dims.hidden_size)),
        query_norm=taken.weight(attention.q_a_layernorm, (dims.q_lora_rank,)),
        latent_norm=taken.weight(attention.kv_a_layernorm, (dims.kv_lora_rank,)),
        q_b=taken.weight(attention.q_b_proj, (heads * dims.qk_head_dim, dims.q_lora_rank)),
        key_up=per_head[:, : dims.qk_nope_head_dim],
        value_up=per_head[:, dims.qk_nope_head_dim :],
        o_proj=taken.weight(attention.o_proj, (dims.hidden_size, values)),
    )


def _gate_up(mlp: Any, inner: int, dims: K3Dims, taken: _Taken) -> Tensor:
    whole = taken.weight(mlp.gate_up_proj, (2 * inner, dims.hidden_size))
    return interleave_gate_up(whole[:inner], whole[inner:])


def _dense(mlp: Any, dims: K3Dims, taken: _Taken) -> DensePart:
    inner = dims.dense_intermediate_size
    return DensePart(
        gate_up=taken.twice(_gate_up(mlp, inner, dims, taken)),
        down=taken.weight(mlp.down_proj, (dims.hidden_size, inner)),
    )


def _moe(moe: Any, experts: PackedExperts, dims: K3Dims, taken: _Taken) -> MoePart:
    hidden, inner, latent = dims.hidden_size, dims.shared_intermediate_size, dims.latent_size
    router = taken.weight(moe.gate, (dims.num_experts, hidden))
    down = taken.weight(moe.routed_expert_down_proj, (latent, hidden))
    shared = taken.twice(_gate_up(moe.shared_experts, inner, dims, taken))
    front = torch.cat([router, down, shared])
    moe.gate.weight.data = front[: dims.num_experts]
    moe.routed_expert_down_proj.weight.data = front[dims.num_experts :][:latent]
    tail = [
        taken.weight(moe.routed_expert_up_proj, (hidden, latent)),
        taken.weight(moe.shared_experts.down_proj, (hidden, inner)),
    ]
    taken.twice(experts.gate_up)
    taken.twice(experts.down)
    return MoePart(
        front=front,
        correction_bias=moe.gate.e_score_correction_bias.data.float(),
        experts=experts,
        latent_norm=taken.weight(moe.routed_expert_norm, (latent,)),
        tail=taken.twice(torch.cat(tail, dim=1)),
    )
