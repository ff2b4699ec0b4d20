from dataclasses import replace

import pytest
import torch
from torch import Tensor

from k3decode.decode.layer_weights import DensePart, KdaPart, MlaPart, MoePart
from k3decode.decode.packing import pack_layer
from k3decode.decode.random_weights import random_layer
from k3decode.ops.experts.packing import PackedExperts
from k3decode.vllm_plugin.gpu.engine_experts import pack_before_reordering
from k3decode.vllm_plugin.gpu.engine_weights import engine_layer

from ...decode.executor_on_cpu import CPU, DIMS  # noqa: TID252
from .fake_engine import decoder_layer, routed_experts

SMALL = replace(DIMS, num_experts=16)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype is other.dtype and bool(torch.equal(one, other))


def test_kda_with_a_dense_part_is_taken_as_packing_takes_it() -> None:
    tensors, _ = random_layer(SMALL, 0, 0, CPU)
    norm = tensors["self_attn.o_norm.weight"]
    norm.copy_(norm.to(torch.bfloat16))
    module = decoder_layer(tensors, SMALL, 0)
    found, wanted = engine_layer(module, 0, None, SMALL), pack_layer(tensors, None, SMALL, 0)
    for point in ("before", "after"):
        one, other = getattr(found.layer, point), getattr(wanted, point)
        assert _same(one.direction, other.direction) and _same(one.output_norm, other.output_norm)
    kda, packed = found.layer.attention, wanted.attention
    assert isinstance(kda, KdaPart) and isinstance(packed, KdaPart)
    assert kda.in_proj.shape == packed.in_proj.shape
    used = packed.in_proj.any(-1)
    assert torch.equal(kda.in_proj[used], packed.in_proj[used])
    assert kda.in_proj.data_ptr() == module.self_attn.in_proj_qkvgfab.weight.data_ptr()
    for name in ("f_b", "conv", "a_log", "dt_bias", "o_norm"):
        assert _same(getattr(kda.step, name), getattr(packed.step, name))
    dense, other_dense = found.layer.feed_forward, wanted.feed_forward
    assert isinstance(dense, DensePart) and isinstance(other_dense, DensePart)
    assert _same(dense.gate_up, other_dense.gate_up) and _same(dense.down, other_dense.down)
    assert found.twice_bytes == 2 * dense.gate_up.numel()


def test_mla_with_experts_is_taken_as_packing_takes_it() -> None:
    tensors, experts = random_layer(SMALL, 3, 0, CPU)
    assert experts is not None
    kept: list[PackedExperts] = []
    loaded = routed_experts(experts)
    pack_before_reordering(loaded, SMALL, 3, kept.append)
    loaded.quant_method.process_weights_after_loading(loaded)
    assert not bool(loaded.w13_weight.any())
    module = decoder_layer(tensors, SMALL, 3)
    gate = module.mlp.gate.weight.data.clone()
    found, wanted = engine_layer(module, 3, kept[0], SMALL), pack_layer(tensors, experts, SMALL, 3)
    mla, packed = found.layer.attention, wanted.attention
    assert isinstance(mla, MlaPart) and isinstance(packed, MlaPart)
    for name in ("in_proj", "query_norm", "latent_norm", "q_b", "key_up", "value_up", "o_proj"):
        assert _same(getattr(mla, name), getattr(packed, name))
    moe, other = found.layer.feed_forward, wanted.feed_forward
    assert isinstance(moe, MoePart) and isinstance(other, MoePart)
    for name in ("front", "correction_bias", "latent_norm", "tail"):
        assert _same(getattr(moe, name), getattr(other, name))
    assert _same(moe.experts.gate_up, other.experts.gate_up)
    assert _same(moe.experts.down, other.experts.down)
    # The engine's router lies inside our front matrix now, with the same values.
    assert module.mlp.gate.weight.data_ptr() == moe.front.data_ptr()
    assert torch.equal(module.mlp.gate.weight.data, gate)
    shared, bf16 = 2 * SMALL.shared_intermediate_size * SMALL.hidden_size, 2
    routed = moe.experts.gate_up.numel() + moe.experts.down.numel()
    assert found.twice_bytes == routed + bf16 * (shared + moe.tail.numel())


def test_weights_of_another_kind_are_refused_together() -> None:
    tensors, _ = random_layer(SMALL, 0, 0, CPU)
    module = decoder_layer(tensors, SMALL, 0)
    module.self_attn.o_proj.weight.data = torch.zeros(3, 5)
    module.self_attn.A_log.data = torch.zeros(2, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"layer 0: .*A_log: .*\[2\] in torch.bf.*\[3, 5\]"):
        engine_layer(module, 0, None, SMALL)


def test_padded_experts_are_refused() -> None:
    _, experts = random_layer(SMALL, 1, 0, CPU)
    assert experts is not None
    loaded = routed_experts(experts)
    loaded.w2_weight.data = loaded.w2_weight.data[:, :, :32]
    pack_before_reordering(loaded, SMALL, 1, lambda _packed: None)
    with pytest.raises(ValueError, match="layer 1: expected second matrices of experts as"):
        loaded.quant_method.process_weights_after_loading(loaded)
