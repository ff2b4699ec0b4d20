import json
from dataclasses import replace
from pathlib import Path

import torch

from k3decode.decode.random_weights import random_layer
from k3decode.vllm_plugin.served_check.small_model import (
    LOUD_TOKENS,
    check_dims,
    seeded_tensors,
    write_check_model,
)

from ...decode.executor_on_cpu import CPU, DIMS  # noqa: TID252


def test_the_last_layer_is_mla_too(tmp_path: Path) -> None:
    write_check_model(tmp_path, check_dims(8, 6), longest=512)
    linear = json.loads((tmp_path / "config.json").read_text())["linear_attn_config"]
    assert linear["full_attn_layers"] == [4, 6]
    assert linear["kda_layers"] == [1, 2, 3, 5]


def test_tensors_have_a_checkpoints_names() -> None:
    dims = replace(DIMS, num_hidden_layers=2, num_experts=16)
    tensors = dict(seeded_tensors(dims, 3, CPU))
    first, second = LOUD_TOKENS
    head = tensors["lm_head.weight"]
    assert torch.equal(head[second], -head[first])
    assert head[first].float().std() > 10 * head[2].float().std()
    _, experts = random_layer(dims, 1, 3, CPU)
    assert experts is not None
    prefix = "model.layers.1.block_sparse_moe.experts.15."
    inner = dims.expert_intermediate_size
    assert torch.equal(tensors[f"{prefix}w1.weight_packed"], experts.w13[15, :inner])
    assert torch.equal(tensors[f"{prefix}w3.weight_scale"], experts.w13_scales[15, inner:])
    assert torch.equal(tensors[f"{prefix}w2.weight_packed"], experts.w2[15])
    assert "model.layers.0.mlp.gate_proj.weight" in tensors
