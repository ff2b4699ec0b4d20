"""Modules and metadata with the names, shapes and layouts of K3 in vLLM 0.33.0."""

from types import SimpleNamespace

import torch
from torch import Tensor

from k3decode.decode.packing import ExpertBytes
from k3decode.dims import K3Dims


def with_weight(tensor: Tensor) -> SimpleNamespace:
    return SimpleNamespace(weight=torch.nn.Parameter(tensor, requires_grad=False))


def decoder_layer(tensors: dict[str, Tensor], dims: K3Dims, number: int) -> SimpleNamespace:
    """The engine's module of one layer, loaded from a checkpoint's tensors."""
    named = {name.removesuffix(".weight"): tensor for name, tensor in tensors.items()}
    norms = ("input_layernorm", "post_attention_layernorm")
    points = [f"{point}_{part}" for point in ("self_attention_res", "mlp_res") for part in _POINT]
    attention = _mla(named, number) if dims.is_mla(number) else _kda(named, number)
    return SimpleNamespace(
        self_attn=attention,
        mlp=_mlp(named, "mlp.") if dims.is_dense(number) else _moe(named),
        is_moe_layer=not dims.is_dense(number),
        **{name: with_weight(named[name]) for name in (*norms, *points)},
    )


_POINT = ("norm", "proj")


def _kda(named: dict[str, Tensor], number: int) -> SimpleNamespace:
    rows = [named[f"self_attn.{name}_proj"] for name in ("q", "k", "v", "g", "f_a", "b")]
    packed = torch.cat(rows)
    # What the engine never loads: rows of padding.
    padding = torch.full((-len(packed) % 16, packed.shape[1]), 7.0, dtype=packed.dtype)
    taps = torch.cat([named[f"self_attn.{name}_conv1d"] for name in "qkv"])
    return SimpleNamespace(
        prefix=f"model.layers.{number}.self_attn",
        in_proj_qkvgfab=with_weight(torch.cat([packed, padding])),
        f_b_proj=with_weight(named["self_attn.f_b_proj"]),
        conv1d=with_weight(taps.unsqueeze(1)),
        A_log=torch.nn.Parameter(named["self_attn.A_log"], requires_grad=False),
        dt_bias=torch.nn.Parameter(named["self_attn.dt_bias"], requires_grad=False),
        o_norm=with_weight(named["self_attn.o_norm"].to(torch.bfloat16)),
        o_proj=with_weight(named["self_attn.o_proj"]),
    )


def _mla(named: dict[str, Tensor], number: int) -> SimpleNamespace:
    rows = [named[f"self_attn.{name}"] for name in ("q_a_proj", "kv_a_proj_with_mqa", "g_proj")]
    names = ("q_a_layernorm", "kv_a_layernorm", "q_b_proj", "kv_b_proj", "o_proj")
    return SimpleNamespace(
        layer_name=f"model.layers.{number}.self_attn",
        fused_qkv_a_g_proj=with_weight(torch.cat(rows)),
        **{name: with_weight(named[f"self_attn.{name}"]) for name in names},
    )


def _mlp(named: dict[str, Tensor], prefix: str) -> SimpleNamespace:
    halves = [named[f"{prefix}{name}_proj"] for name in ("gate", "up")]
    return SimpleNamespace(
        gate_up_proj=with_weight(torch.cat(halves)),
        down_proj=with_weight(named[f"{prefix}down_proj"]),
    )


def _moe(named: dict[str, Tensor]) -> SimpleNamespace:
    part = "block_sparse_moe."
    gate = with_weight(named[f"{part}gate"])
    bias = named[f"{part}gate.e_score_correction_bias"]
    gate.e_score_correction_bias = torch.nn.Parameter(bias, requires_grad=False)
    names = ("routed_expert_down_proj", "routed_expert_norm", "routed_expert_up_proj")
    return SimpleNamespace(
        gate=gate,
        shared_experts=_mlp(named, f"{part}shared_experts."),
        **{name: with_weight(named[part + name]) for name in names},
    )


def routed_experts(experts: ExpertBytes) -> SimpleNamespace:
    """The engine's module of routed experts, loaded, with a method that spoils what it reorders."""
    names = {"w13_weight": "w13", "w13_weight_scale": "w13_scales"}
    names |= {"w2_weight": "w2", "w2_weight_scale": "w2_scales"}
    module = SimpleNamespace(
        **{
            name: torch.nn.Parameter(getattr(experts, source).clone(), requires_grad=False)
            for name, source in names.items()
        }
    )

    def reorder(loaded: SimpleNamespace) -> None:
        for name in names:
            getattr(loaded, name).data.zero_()

    module.quant_method = SimpleNamespace(process_weights_after_loading=reorder)
    return module


def kda_metadata(pages: Tensor, *, prompts: int = 0, drafts: int = 0) -> SimpleNamespace:
    """Metadata of a step for KDA: `pages` are int32 [rows], 0 for padding."""
    return SimpleNamespace(
        num_prefills=prompts,
        num_decodes=len(pages) - prompts,
        num_spec_decodes=drafts,
        non_spec_state_indices_tensor=pages,
    )


def mla_metadata(table: Tensor, lengths: Tensor, *, prompts: int = 0) -> SimpleNamespace:
    """Metadata of a step for MLA."""
    rows = len(lengths)
    return SimpleNamespace(
        num_prefills=prompts,
        num_decodes=rows,
        num_decode_tokens=rows,
        decode=SimpleNamespace(block_table=table, seq_lens=lengths),
    )
