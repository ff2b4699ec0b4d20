import pytest
import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.cost import expert_bytes, experts_cost
from k3decode.ops.experts.launch import config_for, variants
from k3decode.ops.experts.packing import pack_experts, unpack_down, unpack_gate_up

EXPERTS, LATENT, INNER = 19, 96, 64


def random_bytes(*extents: int, high: int = 256) -> Tensor:
    generator = torch.Generator().manual_seed(sum(extents))
    return torch.randint(0, high, extents, generator=generator, dtype=torch.uint8)


def checkpoint(high: int = 256) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return (
        random_bytes(EXPERTS, 2 * INNER, LATENT // 2),
        random_bytes(EXPERTS, 2 * INNER, LATENT // 32, high=high),
        random_bytes(EXPERTS, LATENT, INNER // 2),
        random_bytes(EXPERTS, LATENT, INNER // 32, high=high),
    )


# More experts than are reordered at a time, and not a multiple of it.
def test_pack_experts_loses_nothing() -> None:
    w13, w13_scales, w2, w2_scales = checkpoint()
    packed = pack_experts(w13, w13_scales, w2, w2_scales)
    for expert in range(EXPERTS):
        rows, scales = unpack_gate_up(packed, expert)
        assert torch.equal(rows, w13[expert])
        assert torch.equal(scales, w13_scales[expert])
        rows, scales = unpack_down(packed, expert)
        assert torch.equal(rows, w2[expert])
        assert torch.equal(scales, w2_scales[expert])
    stored = (packed.gate_up, packed.gate_up_scales, packed.down, packed.down_scales)
    assert sum(t.numel() for t in stored) == sum(t.numel() for t in checkpoint())


def test_a_block_of_the_first_matrix_has_gate_rows_and_their_up_rows() -> None:
    w13, w13_scales, w2, w2_scales = checkpoint()
    packed = pack_experts(w13, w13_scales, w2, w2_scales)
    # Scales of group 2 of tile 1: word g has rows g and g + 8 of gate, then of up.
    word = packed.gate_up_scales[4, 1, 2, 12:16].tolist()
    rows = [16 + 3, 16 + 11, INNER + 16 + 3, INNER + 16 + 11]
    assert word == w13_scales[4, rows, 2].tolist()


@pytest.mark.parametrize(("high", "wide"), [(128, False), (129, True)])
def test_pack_experts_says_whether_scales_are_wide(high: int, wide: bool) -> None:
    w13, w13_scales, w2, w2_scales = checkpoint(high=128)
    w2_scales[3, 7, 1] = high - 1
    assert pack_experts(w13, w13_scales, w2, w2_scales).wide_scales is wide


def test_pack_experts_names_every_tensor_that_does_not_fit() -> None:
    w13, w13_scales, w2, w2_scales = checkpoint()
    with pytest.raises(
        ValueError, match=r"w13: expected .*w2_scales: expected .*as the checkpoint"
    ):
        pack_experts(w13[:, 1:], w13_scales, w2, w2_scales[..., :1])
    with pytest.raises(ValueError, match=r"expected torch\.uint8, found torch\.int8"):
        pack_experts(w13.view(torch.int8), w13_scales, w2, w2_scales)


def test_variants_are_the_shards_of_eight_and_sixteen_ranks() -> None:
    found = variants(K3Dims())
    assert {name: config.inner_size for name, config in found.items()} == {
        "tp8_m32_narrow": 384,
        "tp8_m64_narrow": 384,
        "tp8_m32_wide": 384,
        "tp8_m64_wide": 384,
        "tp16_m32_narrow": 192,
        "tp16_m64_narrow": 192,
        "tp16_m32_wide": 192,
        "tp16_m64_wide": 192,
    }
    assert (found["tp8_m32_wide"].gate_up_tiles, found["tp8_m32_wide"].down_tiles) == (24, 112)
    assert (found["tp16_m64_wide"].gate_up_chunk, found["tp16_m64_wide"].down_chunk) == (7, 3)


def test_config_refuses_what_the_kernels_cannot_hold() -> None:
    dims = K3Dims()
    with pytest.raises(ValueError, match="divides the inner width 3072, found 7"):
        config_for(dims, 7, rows=1, wide_scales=False)
    with pytest.raises(ValueError, match="shard the experts over more ranks"):
        config_for(dims, 1, rows=1, wide_scales=False)
    with pytest.raises(ValueError, match="latent width of 512 to 4096 columns"):
        ExpertsConfig(
            num_experts=8,
            top_k=2,
            latent_size=600,
            inner_size=64,
            situ_beta=4.0,
            situ_linear_beta=25.0,
            wide_scales=False,
            max_rows=64,
            down_warps=14,
        )


def test_cost_counts_the_tensors_of_the_chosen_experts() -> None:
    config = config_for(K3Dims(), 8, rows=2, wide_scales=False)
    w13 = 768 * 1792 + 768 * 112
    w2 = 3584 * 192 + 3584 * 12
    assert expert_bytes(config) == w13 + w2
    cost = experts_cost(config, 2, served_slots=31, experts=30)
    assert cost.read_bytes == 30 * (w13 + w2) + 2 * 3584 * 2 + 2 * 16 * 8
    assert cost.write_bytes == 2 * 3584 * 2
    assert cost.flops == 31 * 2 * 3 * 3584 * 384
