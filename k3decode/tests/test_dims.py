import dataclasses

import pytest

from k3decode.dims import K3Dims, tiny
from k3decode.model.parameters import parameter_shapes


def test_real_layers_follow_the_published_pattern() -> None:
    dims = K3Dims()
    mla = [i for i in range(dims.num_hidden_layers) if dims.is_mla(i)]
    assert mla == [*range(3, 92, 4), 92]
    assert dims.num_residual_blocks == 8
    assert [i for i in range(dims.num_hidden_layers) if dims.is_dense(i)] == [0]


def test_real_parameter_count_matches_the_published_totals() -> None:
    dims = K3Dims()
    total = active = 0
    for name, shape in parameter_shapes(dims).items():
        count = 1
        for size in shape:
            count *= size
        total += count
        share = dims.num_experts_per_token / dims.num_experts if ".experts." in name else 1.0
        active += 0 if "embed_tokens" in name else int(count * share)
    assert total == pytest.approx(2.78e12, rel=0.01)
    assert active == pytest.approx(104.2e9, rel=0.01)


def test_softmax_scale_is_that_of_the_unabsorbed_query() -> None:
    assert K3Dims().mla_scale == pytest.approx(0.0721688, rel=1e-6)


def test_tiny_keeps_the_skeleton() -> None:
    dims = tiny()
    assert [dims.is_mla(i) for i in range(8)] == [False, False, False, True] * 2
    assert dims.num_residual_blocks == 2
    assert dims.num_experts_per_token < dims.num_experts


def test_tiny_backends_ask_for_cache_rows_of_one_size() -> None:
    dims = tiny()
    assert dims.mla_row == dims.num_attention_heads * dims.qk_head_dim
    assert dims.v_head_dim <= dims.qk_head_dim


@pytest.mark.parametrize(
    "wrong",
    [{"num_hidden_layers": 0}, {"num_experts_per_token": 17}, {"kda_conv_taps": 1}],
)
def test_dims_refuse_what_no_model_can_have(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="found"):
        dataclasses.replace(tiny(), **wrong)
