"""Wrong inputs of the MoE ops are refused in words, before anything is compiled."""

from dataclasses import replace

import pytest
import torch

from k3decode.dims import K3Dims
from k3decode.host.inputs import KernelInputError
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.launch import ExpertsWorkspace, config_for, run_experts
from k3decode.ops.experts.packing import PackedExperts
from k3decode.ops.latent_norm.config import LatentNormConfig
from k3decode.ops.latent_norm.launch import normalise_latent
from k3decode.ops.moe_tail.config import MoeTailConfig
from k3decode.ops.moe_tail.launch import add_shared
from k3decode.ops.situ.config import SituConfig
from k3decode.ops.situ.launch import activate_rows

BF16 = torch.bfloat16
DIMS = replace(
    K3Dims(), num_experts=8, num_experts_per_token=2, latent_size=512, expert_intermediate_size=192
)


def packed_for(config: ExpertsConfig, *, wide_scales: bool = False) -> PackedExperts:
    def empty(tiles: int, columns: int) -> torch.Tensor:
        return torch.zeros(config.num_experts, tiles, columns // 64, 1088, dtype=torch.uint8)

    return PackedExperts(
        gate_up=empty(config.gate_up_tiles, config.latent_size),
        down=empty(config.down_tiles, config.inner_size),
        wide_scales=wide_scales,
        layout="warp_blocks",
    )


def workspace_for(slots: int, *, counters: int = 1) -> ExpertsWorkspace:
    return ExpertsWorkspace(
        inner=torch.zeros(slots, 192, dtype=BF16),
        arrived=torch.zeros(counters, dtype=torch.int32),
        outputs=torch.zeros(0, 512),
    )


def test_run_experts_names_everything_that_is_wrong() -> None:
    config = config_for(DIMS, 1, rows=3, wide_scales=False)
    packed = replace(
        packed_for(replace(config, num_experts=7), wide_scales=True), layout="thread_rows"
    )
    with pytest.raises(KernelInputError) as refusal:
        run_experts(
            torch.zeros(3, 516, dtype=BF16)[:, :512],
            torch.zeros(3, 2, dtype=torch.int64),
            torch.zeros(3, 3),
            packed,
            workspace_for(5, counters=2),
            torch.zeros(3, 512),
            config=config,
        )
    text = str(refusal.value)
    assert text.startswith("experts: ")
    assert "latent: expected a stride that is a multiple of 8 on axis 0, found 516" in text
    assert "experts: expected torch.int32, found torch.int64" in text
    assert "shares: expected shape [3, 2], found [3, 3]" in text
    assert "inner: expected at least 6 rows, found [5, 192]" in text
    assert "arrived: expected shape [1], found [2]" in text
    assert "out: expected torch.bfloat16, found torch.float32" in text
    assert "gate_up: expected shape [8, 12, 8, 1088], found [7, 12, 8, 1088]" in text
    assert "down: expected shape [8, 16, 3, 1088], found [7, 16, 3, 1088]" in text
    assert "packed: expected scale bytes up to 127" in text
    assert "packed: expected the layout warp_blocks of this GPU, found thread_rows" in text
    assert "expected a CUDA device, found cpu" in text


def test_run_experts_refuses_more_rows_than_its_config_is_for() -> None:
    config = config_for(DIMS, 1, rows=32, wide_scales=False)
    with pytest.raises(KernelInputError, match="at most 32 rows as the config says, found 33"):
        run_experts(
            torch.zeros(33, 512, dtype=BF16),
            torch.zeros(33, 2, dtype=torch.int32),
            torch.zeros(33, 2),
            packed_for(config),
            workspace_for(66),
            torch.zeros(33, 512, dtype=BF16),
            config=config,
        )


def test_activate_rows_refuses_widths_and_strides_that_break_vectors() -> None:
    config = SituConfig(beta=4.0, linear_beta=25.0)
    with pytest.raises(KernelInputError) as refusal:
        activate_rows(torch.zeros(2, 24, dtype=BF16), torch.zeros(2, 12, dtype=BF16), config=config)
    text = str(refusal.value)
    assert "out: expected a positive multiple of 8 columns, found 12" in text
    assert "out: expected a stride that is a multiple of 8 on axis 0, found 12" in text
    with pytest.raises(KernelInputError, match=r"gate_up: expected shape \[2, 32\], found \[2, 16"):
        activate_rows(torch.zeros(2, 16, dtype=BF16), torch.zeros(2, 16, dtype=BF16), config=config)


def test_normalise_latent_refuses_another_width_and_a_weight_in_fp32() -> None:
    config = LatentNormConfig(width=512, eps=1e-5)
    with pytest.raises(KernelInputError) as refusal:
        normalise_latent(
            torch.zeros(2, 256, dtype=BF16),
            torch.zeros(512),
            torch.zeros(2, 512, dtype=BF16),
            config=config,
        )
    text = str(refusal.value)
    assert "summed: expected shape [2, 512], found [2, 256]" in text
    assert "weight: expected torch.bfloat16, found torch.float32" in text


def test_add_shared_refuses_rows_that_differ() -> None:
    config = MoeTailConfig(width=1024)
    with pytest.raises(KernelInputError, match=r"shared: expected shape \[2, 1024\], found \[3, "):
        add_shared(
            torch.zeros(2, 1024, dtype=BF16),
            torch.zeros(3, 1024, dtype=BF16),
            torch.zeros(2, 1024, dtype=BF16),
            config=config,
        )


def test_configs_refuse_what_the_kernels_cannot_hold() -> None:
    with pytest.raises(ValueError, match="multiple of 256 columns up to 8192, found 100"):
        LatentNormConfig(width=100, eps=1e-5)
    with pytest.raises(ValueError, match="multiple of 1024 columns, found 1000"):
        MoeTailConfig(width=1000)
    with pytest.raises(ValueError, match="positive bounds, found 0"):
        SituConfig(beta=0.0, linear_beta=25.0)
