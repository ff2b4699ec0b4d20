"""The order of bits: nothing is lost, and the kernels' rotations and masks find every value."""

import pytest
import torch
from torch import Tensor

from k3decode.formats import E2M1_VALUES
from k3decode.mxfp4_blocks import (
    BLOCK_BYTES,
    BLOCK_ROWS,
    CHUNK_BYTES,
    pack_blocks,
    pack_chunks,
    pack_scales,
    unpack_blocks,
    unpack_chunks,
    unpack_scales,
)

from .ops.mxfp4_words import pairs, value


def random_bytes(*extents: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, extents, generator=generator, dtype=torch.uint8)


@pytest.mark.parametrize("shape", [(1, 32, 16), (3, 32, 16 * 5), (2, 4, 32, 32)])
def test_blocks_and_scales_come_back(shape: tuple[int, ...]) -> None:
    tiles = random_bytes(*shape)
    scales = random_bytes(*shape[:-1], shape[-1] // 16)
    blocks = pack_blocks(tiles)
    assert blocks.shape == (*shape[:-2], shape[-1] // 16, BLOCK_BYTES)
    assert torch.equal(unpack_blocks(blocks), tiles)
    assert torch.equal(unpack_scales(pack_scales(scales)), scales)


def test_chunks_come_back_and_have_every_byte() -> None:
    tiles, scales = random_bytes(2, 3, 32, 64), random_bytes(2, 3, 32, 4, seed=1)
    chunks = pack_chunks(tiles, scales)
    assert chunks.shape == (2, 3, 2, CHUNK_BYTES)
    assert chunks.numel() == tiles.numel() + scales.numel()
    found_tiles, found_scales = unpack_chunks(chunks)
    assert torch.equal(found_tiles, tiles)
    assert torch.equal(found_scales, scales)


def test_a_lane_finds_its_rows_and_columns_by_rotation_and_mask() -> None:
    tiles = random_bytes(2, BLOCK_ROWS, 16 * 3, seed=1)
    nibbles = torch.stack([tiles & 0xF, tiles >> 4], dim=-1).flatten(-2)
    words = pack_blocks(tiles).view(torch.int32).unflatten(-1, (32, 4)).long() & 0xFFFFFFFF
    for tile, group, lane in [(0, 0, 0), (1, 2, 31), (0, 1, 13), (1, 0, 18)]:
        g, t = divmod(lane, 4)
        held = words[tile, group, lane].tolist()
        for unit in range(2):
            for half, row_pairs in enumerate(pairs(held[2 * unit], held[2 * unit + 1])):
                row = 16 * unit + 8 * half + g
                codes = nibbles[tile, row, 32 * group + 8 * t :][:8].tolist()
                found = [value(p >> shift & 0xFFFF) for p in row_pairs for shift in (0, 16)]
                expected = [(-1.0 if c & 8 else 1.0) * E2M1_VALUES[c & 7] for c in codes]
                assert found == expected


def test_a_lane_finds_the_scales_of_its_rows() -> None:
    scales = random_bytes(1, BLOCK_ROWS, 2, seed=2)
    blocks = pack_scales(scales)
    for lane, group in [(0, 0), (17, 1), (31, 0)]:
        g = lane // 4
        word = blocks[0, group, 4 * g : 4 * g + 4].tolist()
        assert word == [scales[0, g + 8 * r, group].item() for r in range(4)]
