"""Wrong inputs of MLA's kernels are refused in words, before anything is compiled."""

import dataclasses

import pytest
import torch

from k3decode.dims import K3Dims
from k3decode.host.inputs import KernelInputError, UnsupportedGpuError
from k3decode.ops.mla_combine import launch as combine
from k3decode.ops.mla_decode import launch as decode
from k3decode.ops.mla_decode.config import MlaDecodeConfig, MlaDecodeTogetherConfig
from k3decode.ops.mla_decode.schedule import SplitRule
from k3decode.ops.mla_decode_blackwell.config import MlaDecodeBlackwellConfig
from k3decode.ops.mla_prepare import launch as prepare
from k3decode.ops.mla_query import launch as query

BF16 = torch.bfloat16
DIMS = K3Dims()
WIDTH = DIMS.mla_row


def partials(count: int, heads: int) -> decode.Partials:
    latents = torch.zeros(count, heads, DIMS.kv_lora_rank)
    return decode.Partials(latents, torch.zeros(count, heads))


def test_mla_prepare_names_everything_that_is_wrong() -> None:
    config = prepare.config_for(DIMS, "e4m3")
    with pytest.raises(KernelInputError) as refusal:
        prepare.mla_prepare(
            torch.zeros(2, 2000, dtype=BF16),
            torch.zeros(config.query_rank, dtype=BF16),
            torch.zeros(config.latent),
            torch.zeros(2, dtype=torch.int32),
            torch.zeros(2, config.query_rank, dtype=BF16),
            torch.zeros(4, 64, WIDTH, dtype=BF16),
            config=config,
            cache_scale=0.0,
        )
    text = str(refusal.value)
    assert "projection: expected at least 2112 columns, found [2, 2000]" in text
    assert "latent_norm: expected torch.bfloat16, found torch.float32" in text
    assert "slots: expected torch.int64, found torch.int32" in text
    assert "pages: expected torch.uint8, found torch.bfloat16" in text
    assert "cache_scale: expected 1 for BF16 and more than 0 for E4M3, found 0.0" in text


def test_mla_prepare_refuses_pages_whose_stride_breaks_alignment() -> None:
    config = prepare.config_for(DIMS, "bf16")
    pages = torch.zeros(4, 64 * WIDTH + 4, dtype=BF16)[:, : 64 * WIDTH].unflatten(1, (64, WIDTH))
    with pytest.raises(KernelInputError, match="pages: expected a stride that is a multiple of 8"):
        prepare.mla_prepare(
            torch.zeros(1, 2112, dtype=BF16),
            torch.zeros(config.query_rank, dtype=BF16),
            torch.zeros(config.latent, dtype=BF16),
            torch.zeros(1, dtype=torch.int64),
            torch.zeros(1, config.query_rank, dtype=BF16),
            pages,
            config=config,
        )


def test_mla_query_refuses_another_number_of_heads() -> None:
    config = query.config_for(DIMS, "bf16")
    with pytest.raises(KernelInputError) as refusal:
        query.mla_query(
            torch.zeros(1, 6, config.head_width, dtype=BF16),
            torch.zeros(12, config.nope, config.latent, dtype=BF16),
            torch.zeros(1, 6, WIDTH, dtype=BF16),
            config=config,
            query_scale=2.0,
        )
    text = str(refusal.value)
    assert "key_up: expected shape [6, 128, 512], found [12, 128, 512]" in text
    assert "query_scale: expected 1 for BF16" in text


def test_mla_decode_refuses_rows_that_are_no_requests() -> None:
    config = decode.config_for(DIMS, "bf16")
    cache = decode.PagedCache(
        pages=torch.zeros(2, 64, WIDTH, dtype=BF16),
        table=torch.zeros(2, 1, dtype=torch.int64),
        lengths=torch.zeros(2, dtype=torch.int32),
        tokens_per_request=2,
    )
    with pytest.raises(KernelInputError) as refusal:
        decode.mla_decode(
            torch.zeros(3, 12, WIDTH, dtype=BF16),
            cache,
            partials(2, 12),
            config=config,
            score_scale=1.0,
        )
    text = str(refusal.value)
    assert "query: expected 2 requests of 2 rows, found 3 rows" in text
    assert "table: expected torch.int32, found torch.int64" in text
    assert "latents: expected at least 3 partials for 3 rows, a multiple of 2, found 2" in text
    assert "expected a CUDA device, found cpu" in text


@pytest.mark.parametrize(
    ("architecture", "heads", "tokens", "expected", "block"),
    [
        ("sm_90a", 12, 1, MlaDecodeConfig, 16),
        ("sm_90a", 12, 2, MlaDecodeTogetherConfig, 32),
        ("sm_100a", 12, 1, MlaDecodeBlackwellConfig, 16),
        ("sm_103a", 6, 8, MlaDecodeBlackwellConfig, 48),
        ("sm_103a", 96, 2, MlaDecodeBlackwellConfig, 96),
    ],
)
def test_mla_decode_chooses_by_gpu_and_by_rows_of_a_request(
    architecture: str, heads: int, tokens: int, expected: type, block: int
) -> None:
    config = decode.config_for(DIMS, "bf16")
    chosen = decode.chosen_config(config, heads, tokens, architecture)
    assert type(chosen) is expected
    if isinstance(chosen, MlaDecodeBlackwellConfig):
        assert chosen.columns == block
    else:
        assert getattr(chosen, "query_block", chosen.head_block) == block


def test_a_gpu_without_a_kernel_is_refused_where_parts_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, gpu = decode.config_for(DIMS, "e4m3"), torch.device("cuda")
    found = {"capability": (10, 3)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _gpu: found["capability"])
    assert decode.split_rule(config, gpu) == SplitRule(128, 1, together=True)
    found["capability"] = (9, 0)
    assert decode.split_rule(config, gpu) == SplitRule(32, 2, together=True)
    found["capability"] = (12, 0)
    with pytest.raises(UnsupportedGpuError, match=r"found compute capability 12\.0"):
        decode.split_rule(config, gpu)


def test_mla_combine_refuses_what_its_variant_does_not_make() -> None:
    config = combine.config_for(DIMS, "parts", "values")
    with pytest.raises(KernelInputError) as refusal:
        combine.mla_combine(
            partials(4, 12),
            torch.zeros(2, 12, DIMS.kv_lora_rank),
            config=config,
            out_lse=torch.zeros(2, 12),
        )
    text = str(refusal.value)
    assert "cut: expected it for partials of one device only, found a variant for parts" in text
    assert "lift, out_lse: expected the first for values and the second for latents" in text


def test_mla_combine_refuses_more_parts_than_it_weighs() -> None:
    config = combine.config_for(DIMS, "parts", "latents")
    with pytest.raises(KernelInputError, match="expected 1 to 160 partials for 1 rows, found 161"):
        combine.mla_combine(
            partials(161, 1),
            torch.zeros(1, 1, DIMS.kv_lora_rank),
            config=config,
            cut=combine.CutRows(torch.zeros(1, dtype=torch.int32), SplitRule(16, 2)),
            out_lse=torch.zeros(1, 1),
        )


def test_mla_combine_refuses_partials_that_are_not_of_whole_requests() -> None:
    config = combine.config_for(DIMS, "parts", "latents")
    rule = SplitRule(16, 2, together=True)
    with pytest.raises(
        KernelInputError,
        match="expected 6 to 483 partials for 6 rows, a multiple of 3, found 7",
    ):
        combine.mla_combine(
            partials(7, 1),
            torch.zeros(6, 1, DIMS.kv_lora_rank),
            config=config,
            cut=combine.CutRows(torch.zeros(2, dtype=torch.int32), rule, 3),
            out_lse=torch.zeros(6, 1),
        )


def test_configs_refuse_what_the_kernels_cannot_hold() -> None:
    config = decode.config_for(DIMS, "bf16")
    with pytest.raises(ValueError, match="take fewer stages"):
        dataclasses.replace(config, stages=6)
    with pytest.raises(ValueError, match="expected at least 3 stages, found 2"):
        dataclasses.replace(decode.together_config(config), stages=2)
    with pytest.raises(ValueError, match="each of four warps takes a quarter"):
        dataclasses.replace(config, latent=500)
    with pytest.raises(ValueError, match="a warp sums the squares of one norm"):
        dataclasses.replace(prepare.config_for(DIMS, "bf16"), query_rank=1000)
    with pytest.raises(ValueError, match="multiples of 32"):
        dataclasses.replace(query.config_for(DIMS, "bf16"), nope=100)
    with pytest.raises(ValueError, match="multiple of 32 partials"):
        dataclasses.replace(combine.config_for(DIMS, "parts", "values"), most_partials=100)
    for config_for in (decode.config_for, prepare.config_for, query.config_for):
        with pytest.raises(ValueError, match="expected a cache of bf16 or e4m3, found 'fp16'"):
            config_for(DIMS, "fp16")
