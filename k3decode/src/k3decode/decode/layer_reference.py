"""What one layer should give, from the same BF16 inputs: exactly, and with the specified roundings.

The parts are the ops' references. Between them a value is rounded to BF16 where the specification
says so, or nowhere: the first form in FP32 tells how much the roundings cost, the second in FP64
is what they are measured against. Both take the experts that were chosen, so that a tie which
falls differently does not hide everything behind it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.decode.packing import ExpertBytes
from k3decode.dims import K3Dims
from k3decode.formats import unpack_mxfp4
from k3decode.ops.attn_res.reference import AttnResWeights, attn_res_mixture
from k3decode.ops.dense_mlp.reference import situ
from k3decode.ops.kda.reference import KdaProjection, KdaState, KdaWeights, kda_recurrent
from k3decode.ops.rms_norm.reference import rms_norm

__all__ = ["LayerInputs", "LayerOutputs", "LayerReference"]

_MOE = "block_sparse_moe."


@dataclass(frozen=True)
class LayerInputs:
    """What a layer gets for M requests with one token each."""

    prefix: Tensor
    """BF16 [M, D]"""
    pending: Tensor | None
    """BF16 [M, D]; None at layer 0."""
    blocks: Tensor
    """BF16 [finished blocks, M, D]"""
    taps: Tensor | None = None
    """KDA: BF16 [M, 3, 3 C]"""
    memory: Tensor | None = None
    """KDA: FP32 [M, H, 128, 128]"""
    cache: Tensor | None = None
    """MLA: BF16 [M, tokens so far, L + R]"""


@dataclass(frozen=True)
class LayerOutputs:
    """What it gives; all in the dtype of the form."""

    prefix: Tensor
    attended: Tensor
    hidden: Tensor
    """Input of the feed-forward part."""
    logits: Tensor | None
    """Of the router."""
    pending: Tensor
    memory: Tensor | None
    taps: Tensor | None
    row: Tensor | None
    """MLA's new cache row, [M, L + R]."""


class LayerReference:
    """One layer's weights in one form."""

    def __init__(
        self,
        dims: K3Dims,
        number: int,
        tensors: Mapping[str, Tensor],
        experts: ExpertBytes | None,
        *,
        rounded: bool,
    ) -> None:
        """Choose the form: FP32 with roundings, or FP64 without."""
        self._dims = dims
        self._number = number
        self._dtype = torch.float32 if rounded else torch.float64
        self._weights = {name: tensor.to(self._dtype) for name, tensor in tensors.items()}
        self._experts = experts
        self._round: Callable[[Tensor], Tensor] = _to_bf16 if rounded else _as_it_is

    def apply(self, inputs: LayerInputs, chosen: Tensor | None) -> LayerOutputs:
        """Run the layer.

        Args:
            inputs: BF16 rows and state.
            chosen: experts of each row, int64 [M, k]; None for a dense layer.
        """
        number, size, bf = self._number, self._dims.attn_res_block_size, self._round
        starts_block = number % size == 0
        prefix = inputs.prefix.to(self._dtype)
        if inputs.pending is not None:
            prefix = bf(prefix + inputs.pending.to(self._dtype))
        blocks = [block.to(self._dtype) for block in inputs.blocks]
        x = self._read("self_attention_res", "input_layernorm", [*blocks, prefix])
        if starts_block:
            blocks.append(prefix)
        memory = taps = row = None
        if self._dims.is_mla(number):
            attended, row = self._mla(x, inputs)
        else:
            attended, taps, memory = self._kda(x, inputs)
        prefix = attended if starts_block else bf(prefix + attended)
        hidden = self._read("mlp_res", "post_attention_layernorm", [*blocks, prefix])
        logits = None
        if chosen is None:
            pending = self._mlp("mlp.", hidden)
        else:
            pending, logits = self._moe(hidden, chosen)
        return LayerOutputs(
            prefix=prefix,
            attended=attended,
            hidden=hidden,
            logits=logits,
            pending=pending,
            memory=memory,
            taps=taps,
            row=row,
        )

    def _read(self, name: str, norm: str, sources: list[Tensor]) -> Tensor:
        point = AttnResWeights(
            source_norm=self._weights[f"{name}_norm.weight"],
            query=self._weights[f"{name}_proj.weight"][0],
            output_norm=self._weights[f"{norm}.weight"],
            eps=self._dims.rms_norm_eps,
        )
        return self._round(attn_res_mixture(tuple(sources), point))

    def _product(self, x: Tensor, name: str) -> Tensor:
        return self._round(x @ self._weights[f"{name}.weight"].T)

    def _kda(self, x: Tensor, inputs: LayerInputs) -> tuple[Tensor, Tensor, Tensor]:
        w, dims = self._weights, self._dims
        if inputs.taps is None or inputs.memory is None:
            raise ValueError("expected the state of a KDA layer, found none")
        attention = "self_attn."
        parts = {
            name: self._product(x, f"{attention}{name}_proj")
            for name in ("q", "k", "v", "g", "f_a", "b")
        }
        raw = self._product(parts["f_a"], f"{attention}f_b_proj")
        weights = KdaWeights(
            in_proj=x.new_empty(0),
            f_b_proj=x.new_empty(0),
            o_proj=x.new_empty(0),
            conv_weight=torch.cat([w[f"{attention}{name}_conv1d.weight"] for name in "qkv"]),
            a_log=w[f"{attention}A_log"],
            dt_bias=w[f"{attention}dt_bias"],
            o_norm=w[f"{attention}o_norm.weight"],
            gate_lower_bound=dims.kda_gate_lower_bound,
            qk_norm_eps=dims.kda_qk_norm_eps,
            norm_eps=dims.rms_norm_eps,
        )
        projection = KdaProjection(
            qkv=torch.cat([parts["q"], parts["k"], parts["v"]], dim=-1)[:, None],
            gate=parts["g"][:, None],
            raw_decay=raw[:, None],
            raw_beta=parts["b"][:, None],
        )
        state = KdaState(taps=inputs.taps.to(self._dtype), memory=inputs.memory.to(self._dtype))
        mixed, after = kda_recurrent(projection, weights, state)
        attended = self._product(self._round(mixed[:, 0]), f"{attention}o_proj")
        return attended, after.taps, after.memory

    def _mla(self, x: Tensor, inputs: LayerInputs) -> tuple[Tensor, Tensor]:
        w, dims, bf = self._weights, self._dims, self._round
        if inputs.cache is None:
            raise ValueError("expected the cache of an MLA layer, found none")
        attention, eps = "self_attn.", dims.rms_norm_eps
        heads, nope, latent = dims.num_attention_heads, dims.qk_nope_head_dim, dims.kv_lora_rank
        raw = self._product(x, f"{attention}q_a_proj")
        compressed = bf(rms_norm(raw, w[f"{attention}q_a_layernorm.weight"], eps))
        query = self._product(compressed, f"{attention}q_b_proj").unflatten(1, (heads, -1))
        raw = self._product(x, f"{attention}kv_a_proj_with_mqa")
        normed = bf(rms_norm(raw[:, :latent], w[f"{attention}kv_a_layernorm.weight"], eps))
        row = torch.cat([normed, raw[:, latent:]], dim=-1)
        up = w[f"{attention}kv_b_proj.weight"].view(heads, -1, latent)
        absorbed = bf(torch.einsum("thn,hnl->thl", query[..., :nope], up[:, :nope]))
        absorbed = torch.cat([absorbed, query[..., nope:]], dim=-1)
        cache = torch.cat([inputs.cache.to(self._dtype), row[:, None]], dim=1)
        scores = dims.mla_scale * torch.einsum("thw,tsw->ths", absorbed, cache)
        mixed = torch.einsum("ths,tsl->thl", scores.softmax(-1), cache[..., :latent])
        values = bf(torch.einsum("thl,hvl->thv", mixed, up[:, nope:])).flatten(1)
        gate = torch.sigmoid(self._product(x, f"{attention}g_proj"))
        return self._product(bf(values * gate), f"{attention}o_proj"), row

    def _mlp(self, prefix: str, x: Tensor) -> Tensor:
        dims = self._dims
        gate, up = (self._product(x, f"{prefix}{name}_proj") for name in ("gate", "up"))
        active = self._round(situ(gate, up, dims.situ_beta, dims.situ_linear_beta))
        return self._product(active, f"{prefix}down_proj")

    def _moe(self, x: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        w, dims = self._weights, self._dims
        logits = x @ w[f"{_MOE}gate.weight"].T
        scores = torch.sigmoid(logits).gather(1, chosen)
        shares = dims.routed_scaling_factor * scores / scores.sum(-1, keepdim=True)
        latent = self._product(x, f"{_MOE}routed_expert_down_proj")
        summed = self._round(self._routed(latent, chosen, shares))
        norm = w[f"{_MOE}routed_expert_norm.weight"]
        normed = self._round(rms_norm(summed, norm, dims.rms_norm_eps))
        routed = self._product(normed, f"{_MOE}routed_expert_up_proj")
        return self._round(routed + self._mlp(f"{_MOE}shared_experts.", x)), logits

    def _routed(self, latent: Tensor, chosen: Tensor, shares: Tensor) -> Tensor:
        """Weighted sum of each row's experts; a row's weights are de-quantised as it comes."""
        dims, bytes_ = self._dims, self._experts
        if bytes_ is None:
            raise ValueError("expected the routed experts of an MoE layer, found none")
        total = torch.zeros_like(latent)
        for row in range(latent.shape[0]):
            ids = chosen[row]
            first = unpack_mxfp4(bytes_.w13[ids], bytes_.w13_scales[ids]).to(self._dtype)
            second = unpack_mxfp4(bytes_.w2[ids], bytes_.w2_scales[ids]).to(self._dtype)
            gate, up = (first @ latent[row]).chunk(2, dim=-1)
            inner = self._round(situ(gate, up, dims.situ_beta, dims.situ_linear_beta))
            outputs = (second @ inner[..., None])[..., 0]
            total[row] = (shares[row, :, None] * outputs).sum(0)
        return total


def _to_bf16(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


def _as_it_is(x: Tensor) -> Tensor:
    return x
