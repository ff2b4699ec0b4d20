"""Wrong inputs are refused in words, all of them at once, before anything is compiled."""

import pytest
import torch

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS, KernelInputError
from k3decode.ops.attn_res.config import AttnResConfig
from k3decode.ops.attn_res.launch import attn_res
from k3decode.ops.embedding.launch import embed_rows
from k3decode.ops.kda.launch import KdaStepWeights, config_for, kda_step
from k3decode.ops.router.config import RouterConfig
from k3decode.ops.router.launch import route_rows

BF16 = torch.bfloat16


def test_route_rows_names_everything_that_is_wrong() -> None:
    with pytest.raises(KernelInputError) as refusal:
        route_rows(
            torch.zeros(2, 64, dtype=BF16),
            torch.zeros(64),
            torch.zeros(2, 4, dtype=torch.int64),
            torch.zeros(4, 2).T,
            scaling_factor=1.0,
        )
    text = str(refusal.value)
    assert text.startswith("router: ")
    assert "logits: expected torch.float32, found torch.bfloat16" in text
    assert "experts: expected torch.int32, found torch.int64" in text
    assert "weights: expected stride 1 on axis 1, found 2" in text
    assert "expected a CUDA device, found cpu" in text


@pytest.mark.parametrize("rows", [0, MAX_ROWS + 1])
def test_embed_rows_refuses_batches_it_is_not_checked_for(rows: int) -> None:
    with pytest.raises(KernelInputError, match=f"expected 1 to {MAX_ROWS} rows, found {rows}"):
        embed_rows(
            torch.zeros(rows, dtype=torch.int32),
            torch.zeros(4, 16, dtype=BF16),
            torch.zeros(rows, 16, dtype=BF16),
            first_token=0,
        )


def test_embed_rows_refuses_a_stride_that_breaks_alignment() -> None:
    with pytest.raises(KernelInputError, match="multiple of 8 on axis 0, found 17"):
        embed_rows(
            torch.zeros(2, dtype=torch.int32),
            torch.zeros(4, 17, dtype=BF16)[:, :16],
            torch.zeros(2, 16, dtype=BF16),
            first_token=0,
        )


def test_attn_res_refuses_a_block_that_is_also_a_source() -> None:
    rows = torch.zeros(2, 256, dtype=BF16)
    with pytest.raises(KernelInputError, match="write_block: expected None or 2 to 2, found 1"):
        attn_res(
            rows,
            None,
            torch.zeros(3, 2, 256, dtype=BF16),
            torch.zeros(256),
            None,
            rows.clone(),
            num_blocks=2,
            write_block=1,
            reset=False,
            eps=1e-5,
        )


def test_kda_step_refuses_a_number_of_heads_that_does_not_fit_the_weights() -> None:
    config = config_for(K3Dims(), 6)
    channels = 2 * config.head_dim
    weights = KdaStepWeights(
        f_b=torch.zeros(channels, 128, dtype=BF16),
        conv=torch.zeros(3 * channels, 4),
        a_log=torch.zeros(2),
        dt_bias=torch.zeros(channels),
        o_norm=torch.zeros(128),
    )
    with pytest.raises(KernelInputError) as refusal:
        kda_step(
            torch.zeros(1, 64, dtype=BF16),
            weights,
            torch.zeros(1, 1, dtype=torch.int32),
            torch.zeros(1, 3, 3 * channels, dtype=BF16),
            torch.zeros(1, 2, 128, 128),
            torch.zeros(1, channels, dtype=BF16),
            config=config,
        )
    text = str(refusal.value)
    assert "a_log: expected shape [6], found [2]" in text
    assert "memory: expected shape [1, 6, 128, 128], found [1, 2, 128, 128]" in text
    assert "projection: expected at least 3206 columns, found [1, 64]" in text


def test_configs_refuse_widths_the_kernels_cannot_hold() -> None:
    with pytest.raises(ValueError, match="multiple of 256 columns"):
        AttnResConfig(
            hidden_size=100,
            blocks=0,
            has_pending=False,
            write_block=None,
            reset=False,
            output_norm=True,
            eps=1e-5,
        )
    with pytest.raises(ValueError, match="multiple of 32"):
        RouterConfig(num_experts=100, experts_per_token=4, scaling_factor=1.0)


def test_kda_step_refuses_drafts_without_what_was_accepted() -> None:
    config = config_for(K3Dims(), 6, tokens=4)
    channels = config.channels
    weights = KdaStepWeights(
        f_b=torch.zeros(channels, 128, dtype=BF16),
        conv=torch.zeros(3 * channels, 4),
        a_log=torch.zeros(6),
        dt_bias=torch.zeros(channels),
        o_norm=torch.zeros(128),
    )
    with pytest.raises(KernelInputError) as refusal:
        kda_step(
            torch.zeros(6, config.projection_width, dtype=BF16),
            weights,
            torch.zeros(1, 1, dtype=torch.int32),
            torch.zeros(1, 3, 3 * channels, dtype=BF16),
            torch.zeros(1, 6, 128, 128),
            torch.zeros(6, channels, dtype=BF16),
            config=config,
        )
    text = str(refusal.value)
    assert "expected a multiple of 4 rows, 4 tokens per request, found 6" in text
    assert "slots: expected shape [1, 4], found [1, 1]" in text
    assert "conv_state: expected shape [1, 6, 2304], found [1, 3, 2304]" in text
    assert "accepted: expected None with one token per request and int32 [1] with more" in text


def test_kda_config_refuses_more_drafts_than_the_kernel_unrolls() -> None:
    with pytest.raises(ValueError, match="1 to 8 tokens per request, found 9"):
        config_for(K3Dims(), 6, tokens=9)
