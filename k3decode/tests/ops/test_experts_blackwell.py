"""Blackwell's expert kernels played through on a CPU, byte by byte: places, turns and lanes.

Nothing of this chip can run here. What is shown: with the bytes where the packing puts them, the
slots where the kernels' numbers put them and the matrix unit reading as its descriptor says, every
slot gets the products of its expert and token.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from k3decode.device.swizzled_places import row_place
from k3decode.dims import K3Dims
from k3decode.formats import unpack_mxfp4
from k3decode.ops.experts.launch import blackwell_config, config_for
from k3decode.ops.experts.packing import PackedExperts, pack_experts
from k3decode.ops.experts_blackwell.config import TILE_TOKENS, ExpertsBlackwellConfig
from k3decode.ops.experts_blackwell.turns import first_turn_of_group, phase_of, slot_of

from .blackwell_memory import Descriptor
from .mxfp4_words import pairs, value

ROWS, GROUPS, LANES = 128, 2, 128
CHUNK_BYTES, GROUP_BYTES, SCALES_AT = 4352, 2048, 4096
DIMS = replace(
    K3Dims(), num_experts=5, num_experts_per_token=2, latent_size=512, expert_intermediate_size=192
)


def small_config() -> ExpertsBlackwellConfig:
    return blackwell_config(
        config_for(replace(DIMS, latent_size=512), 1, rows=32, wide_scales=False)
    )


def stored_experts(config: ExpertsBlackwellConfig) -> tuple[tuple[Tensor, ...], PackedExperts]:
    generator = torch.Generator().manual_seed(5)

    def draw(*extents: int, low: int = 0, high: int = 256) -> Tensor:
        return torch.randint(low, high, extents, generator=generator, dtype=torch.uint8)

    experts, latent, inner = config.num_experts, config.latent_size, config.inner_size
    stored = (
        draw(experts, 2 * inner, latent // 2),
        draw(experts, 2 * inner, latent // 32, low=119, high=124),
        draw(experts, latent, inner // 2),
        draw(experts, latent, inner // 32, low=119, high=124),
    )
    return stored, pack_experts(*stored, layout="thread_rows")


def lane_values(chunk: np.ndarray, row: int) -> list[float]:
    """What a thread makes of its row of a chunk, in the order of tensor memory's halves."""
    found = []
    for part in range(GROUPS):
        words = chunk[part * GROUP_BYTES + row * 16 :][:16].view("<u4").tolist()
        scale = 2.0 ** (int(chunk[SCALES_AT + row * GROUPS + part]) - 127)
        for unit in range(2):
            for half_pairs in pairs(words[2 * unit], words[2 * unit + 1]):
                both = [value(pair >> shift & 0xFFFF) for pair in half_pairs for shift in (0, 16)]
                found += [number * scale for number in both]
    return found


@pytest.mark.parametrize("matrix", ["gate_up", "down"])
def test_a_thread_dequantises_its_row(matrix: str) -> None:
    config = small_config()
    (w13, s13, w2, s2), packed = stored_experts(config)
    tiles = getattr(packed, matrix)[3].numpy()
    for tile, chunk, row in [(0, 0, 0), (1, 2, 63), (2, 1, 64), (1, 0, 127), (0, 2, 5)]:
        if matrix == "down":
            whole = unpack_mxfp4(w2[3], s2[3])[tile * ROWS + row]
        else:
            kind, within = divmod(row, ROWS // 2)
            whole = unpack_mxfp4(w13[3], s13[3])[
                kind * config.inner_size + tile * ROWS // 2 + within
            ]
        expected = whole[64 * chunk : 64 * chunk + 64].tolist()
        assert lane_values(tiles[tile, chunk], row) == expected


def test_two_warps_write_tokens_where_the_matrix_unit_reads_them() -> None:
    tokens = np.random.default_rng(0).integers(0, 256, (TILE_TOKENS, 128), dtype=np.uint8)
    memory = np.zeros(TILE_TOKENS * 128, dtype=np.uint8)
    for thread, i in product(range(64), range(2)):
        token, piece = thread // 8 + 8 * i, thread % 8
        place = row_place(TILE_TOKENS, 128, token, piece)
        memory[place : place + 16] = tokens[token, 16 * piece : 16 * piece + 16]
    for step in range(4):
        # One product takes 16 columns: its descriptor starts 32 bytes behind the one before.
        read = Descriptor(start=32 * step, leading=16, stride=1024, row_bytes=128, turned=False)
        low = memory[read.places(TILE_TOKENS, 16, 2)]
        high = memory[read.places(TILE_TOKENS, 16, 2) + 1]
        assert np.array_equal(low, tokens[:, 32 * step : 32 * step + 32 : 2])
        assert np.array_equal(high, tokens[:, 32 * step + 1 : 32 * step + 33 : 2])


def walk(
    items: int, ctas: int, cta: int, chosen: list[int], tiles: int
) -> list[tuple[int, int, int]]:
    """Place, tile and first token of the tiles of a CTA, in the order of its warps' loops."""
    found, item, column = [], cta, 0
    while item < items:
        place = item // tiles
        found.append((place, item - place * tiles, column))
        after = column + TILE_TOKENS
        more = after < chosen[place]
        item, column = (item if more else item + ctas), (after if more else 0)
    return found


@pytest.mark.parametrize("ctas", [1, 7, 148])
def test_ctas_take_every_token_of_every_tile_once(ctas: int) -> None:
    chosen, tiles = [1, 40, 16, 17, 33], 6
    seen = [
        one for cta in range(ctas) for one in walk(len(chosen) * tiles, ctas, cta, chosen, tiles)
    ]
    expected = [
        (place, tile, column)
        for place, tokens in enumerate(chosen)
        for tile in range(tiles)
        for column in range(0, tokens, TILE_TOKENS)
    ]
    assert sorted(seen) == expected


@pytest.mark.parametrize(("chunks", "tiles"), [(1, 9), (3, 8), (6, 5), (56, 3)])
def test_groups_take_turns_and_nobody_waits_for_what_cannot_come(chunks: int, tiles: int) -> None:
    config = small_config()
    taken: dict[int, list[int]] = {0: [], 1: []}
    for tile, group in product(range(tiles), range(config.groups)):
        turn = tile * chunks
        mine = first_turn_of_group(turn, group, config.groups)
        while mine < turn + chunks:
            taken[group].append(mine)
            mine += config.groups
    assert sorted(taken[0] + taken[1]) == list(range(tiles * chunks))
    for group, turns in taken.items():
        assert [slot_of(turn, config.groups) for turn in turns] == [group] * len(turns)
        # A barrier's phase turns with each use, so a use waits for the parity of its number.
        assert [phase_of(turn, config.groups) for turn in turns] == [
            use % 2 for use in range(len(turns))
        ]
    uses = [0] * config.stages
    for turn in range(tiles * chunks):
        slot = slot_of(turn, config.stages)
        assert phase_of(turn, config.stages) == uses[slot] % 2
        uses[slot] += 1


def test_everything_fits_the_chip() -> None:
    for ranks, rows in product((1, 2, 4, 8, 16), (32, 64)):
        config = blackwell_config(config_for(K3Dims(), ranks, rows=rows, wide_scales=False))
        assert config.tensor_memory_columns == 128
        groups = 4 * (5 * config.num_experts + 3 * config.max_slots) + config.max_slots
        assert config.ring_bytes + groups + 8192 + 2048 <= 232_448


def test_products_of_all_chunks_are_those_of_the_expert() -> None:
    config = small_config()
    (w13, s13, _, _), packed = stored_experts(config)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randn(TILE_TOKENS, config.latent_size, generator=generator).to(torch.bfloat16)
    sums = torch.zeros(LANES, TILE_TOKENS, dtype=torch.float64)
    for chunk in range(config.gate_up_chunks):
        stretch = packed.gate_up[2, 1, chunk].numpy()
        assert stretch.size == CHUNK_BYTES
        rows = torch.tensor([lane_values(stretch, row) for row in range(LANES)])
        sums += rows.double() @ tokens[:, 64 * chunk : 64 * chunk + 64].T.double()
    whole = unpack_mxfp4(w13[2], s13[2]).double() @ tokens.T.double()
    inner = config.inner_size
    expected = torch.cat([whole[64:128], whole[inner + 64 : inner + 128]])
    assert torch.allclose(sums, expected, rtol=1e-12, atol=1e-12)


def test_config_refuses_what_the_kernels_cannot_hold() -> None:
    config = small_config()
    with pytest.raises(ValueError, match="latent width that is a multiple of 128, found 100"):
        replace(config, latent_size=100)
    with pytest.raises(ValueError, match="inner width that is a multiple of 64, found 96"):
        replace(config, inner_size=96)
    with pytest.raises(ValueError, match="at most 1024 experts, found 2 of 2000"):
        replace(config, num_experts=2000)
