from dataclasses import replace
from types import SimpleNamespace

import pytest

from k3decode.decode.shard import shard_dims
from k3decode.dims import K3Dims, tiny
from k3decode.layer_bench.stock_model import stock_config
from k3decode.vllm_plugin.gpu.deployment import RULES, DeploymentFacts, ranks_of, refusals
from k3decode.vllm_plugin.gpu.served_dims import served_dims

ELIGIBLE = DeploymentFacts(
    vllm="0.33.0",
    capability=(9, 0),
    dims=replace(shard_dims(K3Dims(), 8), num_hidden_layers=5),
    weight_type="bfloat16",
    cache_type="auto",
    state_types=("bfloat16", "float32"),
    state_channels_first=False,
    expert_format="mxfp4",
    graphs="FULL_DECODE_ONLY",
    second_runner=True,
    tensor_parallel=1,
    pipeline_parallel=1,
    decode_context_parallel=1,
    expert_parallel=False,
    data_parallel=1,
    two_batches=False,
    draft_tokens=0,
    prefix_caching=False,
    lora=False,
    sleep=False,
)
REFUSED = (
    ("vllm", "0.32.0"),
    ("capability", (10, 0)),
    ("dims", tiny()),
    ("weight_type", "float16"),
    ("cache_type", "fp8"),
    ("state_types", ("bfloat16", "bfloat16")),
    ("state_channels_first", True),
    ("expert_format", "none"),
    ("graphs", "FULL_AND_PIECEWISE"),
    ("second_runner", False),
    ("tensor_parallel", 8),
    ("pipeline_parallel", 2),
    ("decode_context_parallel", 8),
    ("expert_parallel", True),
    ("data_parallel", 2),
    ("two_batches", True),
    ("draft_tokens", 7),
    ("prefix_caching", True),
    ("lora", True),
    ("sleep", True),
)


def test_a_deployment_that_ran_is_eligible() -> None:
    assert refusals(ELIGIBLE) == ()
    assert refusals(replace(ELIGIBLE, graphs="NONE", cache_type="bfloat16")) == ()


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_each_condition_refuses_with_its_own_sentence(name: str, value: object) -> None:
    found = refusals(replace(ELIGIBLE, **{name: value}))  # type: ignore[arg-type]
    assert found == (RULES[[one for one, _ in REFUSED].index(name)][1],)
    assert ": " in found[0]


def test_every_condition_is_tested() -> None:
    assert len(REFUSED) == len(RULES)


def test_widths_of_one_rank_are_recognised() -> None:
    assert [ranks_of(shard_dims(K3Dims(), ranks)) for ranks in (8, 16, 4)] == [8, None, None]


def test_widths_come_back_from_the_configuration_of_a_model() -> None:
    dims = replace(shard_dims(K3Dims(), 8), num_hidden_layers=5, max_position_embeddings=512)
    config = SimpleNamespace(**stock_config(dims, layers=5, longest=512))
    assert served_dims(config) == dims
    del config.linear_attn_config["gate_lower_bound"]
    with pytest.raises(ValueError, match=r"text model of Kimi K3, found another.*gate_lower_bound"):
        served_dims(config)
