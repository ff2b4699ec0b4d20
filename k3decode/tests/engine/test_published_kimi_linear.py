"""The references against an implementation that is not ours: Kimi-Linear of `transformers`.

The engine's environment has it, so nothing is installed for this. Compared are a whole KDA layer in
both forms, a whole MLA layer in both forms, and expert selection. Of K3 it lacks the bounded decay,
MLA's output gate, SiTU, the latent experts and AttnRes.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from k3decode.difference import relative_error
from k3decode.ops.kda.reference import (
    KdaForm,
    KdaState,
    KdaWeights,
    kda_chunked,
    kda_output,
    kda_project,
    kda_recurrent,
)
from k3decode.ops.mla.reference import MlaWeights, mla_absorbed, mla_unabsorbed
from k3decode.ops.router.reference import route

pytestmark = pytest.mark.engine

HIDDEN, HEADS, WIDTH, TAPS, LENGTH = 48, 3, 16, 4, 70
QUERY_RANK, LATENT, NOPE, SHARED, VALUE = 24, 20, 16, 8, 12
EXPERTS, TOP_K = 32, 5
BOUND, EPS = -5.0, 1e-6
TOLERANCE = 5e-6
NUMBERS = {
    "bound": BOUND,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_heads": HEADS,
    "linear_head_dim": WIDTH,
    "linear_conv_kernel_dim": TAPS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "q_lora_rank": QUERY_RANK,
    "kv_lora_rank": LATENT,
    "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": SHARED,
    "v_head_dim": VALUE,
    "rms_norm_eps": EPS,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": TOP_K,
    "routed_scaling_factor": 1.0,
}


def _given() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) / shape[-1] ** 0.5

    channels, expanded = HEADS * WIDTH, HEADS * (NOPE + VALUE)
    return {
        "x": torch.randn(1, LENGTH, HIDDEN, generator=generator),
        **{f"kda.{name}": draw(channels, HIDDEN) for name in "qkv"},
        "kda.b": draw(HEADS, HIDDEN),
        "kda.f_a": draw(WIDTH, HIDDEN),
        "kda.f_b": draw(channels, WIDTH),
        "kda.g_a": draw(WIDTH, HIDDEN),
        "kda.g_b": draw(channels, WIDTH),
        "kda.o": draw(HIDDEN, channels),
        "kda.conv": draw(3 * channels, TAPS),
        "kda.a_log": torch.randn(HEADS, generator=generator) / 2,
        "kda.dt_bias": 4 * torch.randn(channels, generator=generator) - 4,
        "kda.o_norm": 1 + torch.randn(WIDTH, generator=generator) / 4,
        "mla.q_a_proj.weight": draw(QUERY_RANK, HIDDEN),
        "mla.q_a_layernorm.weight": 1 + draw(QUERY_RANK),
        "mla.q_b_proj.weight": 3 * draw(HEADS * (NOPE + SHARED), QUERY_RANK),
        "mla.kv_a_proj_with_mqa.weight": draw(LATENT + SHARED, HIDDEN),
        "mla.kv_a_layernorm.weight": 1 + draw(LATENT),
        "mla.kv_b_proj.weight": draw(expanded, LATENT),
        "mla.o_proj.weight": draw(HIDDEN, HEADS * VALUE),
        "router.weight": 3 * draw(EXPERTS, HIDDEN),
        "router.bias": torch.randn(EXPERTS, generator=generator) / 8,
    }


@pytest.fixture(scope="module")
def given() -> dict[str, Tensor]:
    return _given()


@pytest.fixture(scope="module")
def published(
    given: dict[str, Tensor], engine_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Tensor]:
    folder = tmp_path_factory.mktemp("published")
    source, target = folder / "inputs.safetensors", folder / "outputs.safetensors"
    save_file(given, source, metadata={"numbers": json.dumps(NUMBERS)})
    script = Path(__file__).with_name("kimi_linear_outputs.py")
    subprocess.run(
        [engine_python, script, source, target],
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )
    outputs: dict[str, Tensor] = load_file(target)
    return outputs


def _kda_weights(given: dict[str, Tensor]) -> KdaWeights:
    gate = given["kda.g_b"] @ given["kda.g_a"]
    rows = [*(given[f"kda.{name}"] for name in "qkv"), gate, given["kda.f_a"], given["kda.b"]]
    return KdaWeights(
        in_proj=torch.cat(rows),
        f_b_proj=given["kda.f_b"],
        o_proj=given["kda.o"],
        conv_weight=given["kda.conv"],
        a_log=given["kda.a_log"],
        dt_bias=given["kda.dt_bias"],
        o_norm=given["kda.o_norm"],
        gate_lower_bound=BOUND,
        qk_norm_eps=1e-6,
        norm_eps=EPS,
    )


@pytest.mark.parametrize("form", [kda_recurrent, kda_chunked])
@pytest.mark.parametrize("theirs", ["recurrent", "chunked"])
def test_kda_equals_the_published_layer(
    form: KdaForm, theirs: str, given: dict[str, Tensor], published: dict[str, Tensor]
) -> None:
    weights = _kda_weights(given)
    empty = KdaState(
        taps=torch.zeros(1, TAPS - 1, 3 * HEADS * WIDTH),
        memory=torch.zeros(1, HEADS, WIDTH, WIDTH),
    )
    mixed, _ = form(kda_project(given["x"], weights), weights, empty)
    assert relative_error(kda_output(mixed, weights), published[f"kda.{theirs}"]) < TOLERANCE


@pytest.mark.parametrize("form", [mla_unabsorbed, mla_absorbed])
def test_mla_equals_the_published_layer(
    form: object, given: dict[str, Tensor], published: dict[str, Tensor]
) -> None:
    part = {name.removeprefix("mla.").removesuffix(".weight"): t for name, t in given.items()}
    # A gate of zero lets half of every value through.
    gate = torch.zeros(HEADS * VALUE, HIDDEN)
    weights = MlaWeights(
        in_proj=torch.cat([part["q_a_proj"], part["kv_a_proj_with_mqa"], gate]),
        q_a_layernorm=part["q_a_layernorm"],
        q_b_proj=part["q_b_proj"],
        kv_a_layernorm=part["kv_a_layernorm"],
        kv_b_proj=part["kv_b_proj"],
        o_proj=2 * part["o_proj"],
        num_heads=HEADS,
        nope=NOPE,
        scale=(NOPE + SHARED) ** -0.5,
        norm_eps=EPS,
    )
    assert callable(form)
    out, _ = form(given["x"][0], weights, torch.zeros(0, LATENT + SHARED))
    assert relative_error(out, published["mla"][0]) < TOLERANCE


def test_expert_selection_equals_the_published_one(
    given: dict[str, Tensor], published: dict[str, Tensor]
) -> None:
    logits = given["x"][0] @ given["router.weight"].T
    found = route(logits, given["router.bias"], TOP_K, 1.0)
    weights = torch.zeros(LENGTH, EXPERTS).scatter(1, found.experts, found.weights)
    assert torch.equal(weights > 0, published["routing"] > 0)
    assert relative_error(weights, published["routing"]) < TOLERANCE
