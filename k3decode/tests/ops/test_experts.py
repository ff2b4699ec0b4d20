from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.cost import expert_bytes, experts_cost
from k3decode.ops.experts.launch import config_for, make_workspace, variants
from k3decode.ops.experts.packing import (
    WeightLayout,
    pack_experts,
    unpack_down,
    unpack_gate_up,
)
from k3decode.ops.experts.schedule import (
    begins_stretch,
    first_of_share,
    may_begin_stretch,
)

CPU = torch.device("cpu")

EXPERTS, LATENT, INNER = 19, 128, 64


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
@pytest.mark.parametrize("layout", ["warp_blocks", "thread_rows"])
def test_pack_experts_loses_nothing(layout: WeightLayout) -> None:
    w13, w13_scales, w2, w2_scales = checkpoint()
    packed = pack_experts(w13, w13_scales, w2, w2_scales, layout=layout)
    for expert in range(EXPERTS):
        rows, scales = unpack_gate_up(packed, expert)
        assert torch.equal(rows, w13[expert])
        assert torch.equal(scales, w13_scales[expert])
        rows, scales = unpack_down(packed, expert)
        assert torch.equal(rows, w2[expert])
        assert torch.equal(scales, w2_scales[expert])
    stored = (packed.gate_up, packed.down)
    assert sum(t.numel() for t in stored) == sum(t.numel() for t in checkpoint())


def test_a_chunk_of_the_first_matrix_has_gate_rows_and_their_up_rows() -> None:
    w13, w13_scales, w2, w2_scales = checkpoint()
    packed = pack_experts(w13, w13_scales, w2, w2_scales)
    # Chunk 1 of tile 1, scales of g = 3: rows g and g + 8 of gate, then of up; group 2, then 3.
    words = packed.gate_up[4, 1, 1, 1024 + 24 : 1024 + 32].tolist()
    rows = [16 + 3, 16 + 11, INNER + 16 + 3, INNER + 16 + 11]
    assert words == [*w13_scales[4, rows, 2].tolist(), *w13_scales[4, rows, 3].tolist()]


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


def test_variants_are_whole_weights_and_shards() -> None:
    found = variants(K3Dims())
    inner = {1: 3072, 2: 1536, 4: 768, 8: 384, 16: 192}
    assert {name: config.inner_size for name, config in found.items()} == {
        f"tp{ranks}_m{rows}_{scales}": inner[ranks]
        for ranks in (1, 2, 4, 8, 16)
        for scales in (("narrow",) if ranks in {2, 4} else ("narrow", "wide"))
        for rows in ((4, 16, 32, 64) if scales == "narrow" else (16, 32, 64))
    }
    config = found["tp8_m32_wide"]
    assert (config.gate_up_tiles, config.down_tiles) == (24, 112)
    assert (config.gate_up_chunks, config.down_chunks) == (7, 6)
    forms = [found[f"tp8_m{rows}_narrow"] for rows in (4, 16, 32, 64)]
    assert [form.ring_chunks for form in forms] == [9, 9, 7, 4]
    assert [form.pass_tokens for form in forms] == [4, 8, 8, 8]
    assert [form.one_pass for form in forms] == [True, False, False, False]
    assert [form.stages_tokens for form in forms] == [True, False, False, False]


def test_config_refuses_what_the_kernel_cannot_hold() -> None:
    dims = K3Dims()
    with pytest.raises(ValueError, match="divides the inner width 3072, found 7"):
        config_for(dims, 7, rows=1, wide_scales=False)
    with pytest.raises(ValueError, match="an inner width that is a multiple of 192, found 96"):
        config_for(dims, 32, rows=1, wide_scales=False)
    with pytest.raises(ValueError, match="latent width of 512 to 3584 columns"):
        ExpertsConfig(
            num_experts=8,
            top_k=2,
            latent_size=600,
            inner_size=192,
            situ_beta=4.0,
            situ_linear_beta=25.0,
            wide_scales=False,
            max_rows=64,
            teams=2,
            ring_chunks=4,
            pass_tokens=8,
        )
    few = config_for(dims, 8, rows=1, wide_scales=False)
    with pytest.raises(ValueError, match=r"8 tokens of a pass, or 4 where .*, found 5: take 8"):
        replace(few, pass_tokens=5)
    with pytest.raises(ValueError, match="found 4: take 8"):
        replace(few, wide_scales=True)


def test_workspace_holds_every_slot_and_reports_its_bytes() -> None:
    workspace = make_workspace(config_for(K3Dims(), 8, rows=33, wide_scales=False), CPU)
    assert workspace.inner.shape == (64 * 16, 384)
    assert workspace.bytes == 64 * 16 * 384 * 2 + 4
    assert not workspace.arrived.any()


@pytest.mark.parametrize(("tiles", "teams"), [(0, 264), (5, 264), (384, 264), (14664, 264)])
def test_shares_are_all_tiles_once_and_nearly_equal(tiles: int, teams: int) -> None:
    ends = [first_of_share(tiles, teams, team) for team in range(teams + 1)]
    assert (ends[0], ends[-1]) == (0, tiles)
    sizes = {end - first for first, end in pairwise(ends)}
    assert sizes <= {tiles // teams, tiles // teams + 1}


# The two teams of a CTA are neighbours, and one SM's share is what its CTA's teams have together.
def test_ctas_have_shares_that_differ_by_one_tile() -> None:
    ends = [first_of_share(384, 264, 2 * cta) for cta in range(133)]
    assert {end - first for first, end in pairwise(ends)} == {2, 3}


@pytest.mark.parametrize(("ring", "chunks"), [(6, 7), (4, 7), (6, 3), (4, 3), (6, 2), (4, 2)])
def test_a_stretch_begins_where_the_request_is_a_multiple_of_it(ring: int, chunks: int) -> None:
    requested = range(ring, ring + 5 * chunks)
    begins = [begins_stretch(i % chunks, ring, chunks) for i in range(5 * chunks)]
    assert begins == [chunk % chunks == 0 for chunk in requested]


# A warp's line of chunks: tiles of the first matrix, then stretches of the second.
@pytest.mark.parametrize("ring", [4, 7, 9])
@pytest.mark.parametrize(("chunks", "following"), [(7, 6), (7, 3), (2, 3), (2, 9)])
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_every_stretch_begins_where_the_device_code_looks_for_it(
    ring: int, chunks: int, following: int, tiles: int
) -> None:
    lengths = [chunks] * tiles + [following] * ring
    begins = {0, *accumulate(lengths)}
    asked = [used + ring for used in range(chunks * tiles)]
    missed = [
        chunk
        for chunk in asked
        if chunk in begins
        and not may_begin_stretch((chunk - ring) % chunks, ring, chunks, following)
    ]
    assert missed == []


def test_few_places_are_looked_at() -> None:
    places = [[may_begin_stretch(i, ring, 7, 6) for i in range(7)] for ring in (4, 7, 9)]
    assert [sum(place) for place in places] == [1, 2, 2]


# What the lanes of an MMA have to agree on, played through with plain numbers.
def test_a_product_of_two_groups_has_their_sums_in_two_columns() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(2, 16, 32, generator=generator, dtype=torch.float64)
    tokens = torch.randn(4, 2, 32, generator=generator, dtype=torch.float64)
    # Column lane // 4 of the right operand has token lane // 8 and the group lane // 4 % 2.
    right = torch.stack([tokens[lane // 8, lane // 4 % 2] for lane in range(0, 32, 4)], dim=1)
    tiles = weights @ right
    for lane in range(32):
        # Of the lane's two columns, 2 t and 2 t + 1, each block's products are in one.
        kept = [tiles[block, :, 2 * (lane % 4) + block] for block in range(2)]
        wanted = [weights[block] @ tokens[lane % 4, block] for block in range(2)]
        torch.testing.assert_close(torch.stack(kept), torch.stack(wanted))


def test_cost_counts_the_tensors_of_the_chosen_experts() -> None:
    config = config_for(K3Dims(), 8, rows=2, wide_scales=False)
    w13 = 768 * 1792 + 768 * 112
    w2 = 3584 * 192 + 3584 * 12
    assert expert_bytes(config) == w13 + w2
    cost = experts_cost(config, 2, served_slots=31, experts=30)
    assert cost.read_bytes == 30 * (w13 + w2) + 2 * 3584 * 2 + 2 * 16 * 8
    assert cost.write_bytes == 2 * 3584 * 2
    assert cost.flops == 31 * 2 * 3 * 3584 * 384
