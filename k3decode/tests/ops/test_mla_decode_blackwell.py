"""Blackwell's attention kernel without a Blackwell GPU: addresses, lanes, schedule and refusals.

One CTA is played through in NumPy: the bytes that its copies and threads write, by the arithmetic
of the device code, are read as the descriptors of the matrix products say, and the result is
attention. Another module compares the same descriptors with those of the compiled kernel.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from k3decode.dims import K3Dims
from k3decode.formats import pack_e4m3, unpack_e4m3
from k3decode.host.inputs import KernelInputError
from k3decode.ops.mla.cache_format import CACHE_DTYPES, CacheFormat
from k3decode.ops.mla_decode.launch import (
    PagedCache,
    Partials,
    blackwell_config,
    blackwell_numbers,
    config_for,
)
from k3decode.ops.mla_decode.reference import attend, attend_rounded
from k3decode.ops.mla_decode.schedule import SplitRule, partial_count, pieces, visible_tokens
from k3decode.ops.mla_decode_blackwell.config import (
    BLOCK_COLUMNS,
    BOX_TOKENS,
    MlaDecodeBlackwellConfig,
    block_columns,
)
from k3decode.tolerance import judge_close

from .blackwell_cta import UNIT, Cta
from .blackwell_memory import Storage, lane_of

FORMATS: tuple[CacheFormat, ...] = ("bf16", "e4m3")
DIMS = K3Dims()


def config_of(cache_format: CacheFormat, columns: int) -> MlaDecodeBlackwellConfig:
    return blackwell_config(config_for(DIMS, cache_format), columns)


@pytest.mark.parametrize("cache_format", FORMATS)
@pytest.mark.parametrize(("heads", "q", "length"), [(5, 3, 150), (1, 1, 17), (6, 8, 130)])
def test_what_is_written_is_what_the_products_read(
    cache_format: CacheFormat, heads: int, q: int, length: int
) -> None:
    config = config_of(cache_format, block_columns(heads * q))
    generator = torch.Generator().manual_seed(length)

    def stored(values: torch.Tensor) -> torch.Tensor:
        return values.to(torch.bfloat16) if cache_format == "bf16" else pack_e4m3(values)

    def exact(values: torch.Tensor) -> torch.Tensor:
        return values.double() if cache_format == "bf16" else unpack_e4m3(values).double()

    query = stored(torch.randn(q * heads, config.width, generator=generator))
    rows = torch.randn(length + BOX_TOKENS, config.width, generator=generator)
    rows[length:] = torch.nan
    later = [q - 1 - position for position in range(q) for _ in range(heads)]
    cta = Cta(config, query, stored(rows), length, later)
    latents, lse = cta.attend(DIMS.mla_scale / math.log(2.0))
    # Shares have 8 bits of BF16, or 11 of their three terms together.
    bound = 2.0 ** -(9 if cache_format == "bf16" else 12) * exact(cta.rows[:length]).abs().max()
    for column, behind in enumerate(later):
        seen = exact(cta.rows[: length - behind])
        one = exact(query[column : column + 1])
        expected = attend(one, seen, config.latent, DIMS.mla_scale)
        assert (latents[column] - expected.latents[0]).abs().max() < bound
        assert abs(lse[column] - expected.lse[0]) < 1e-4


@pytest.mark.parametrize("cache_format", FORMATS)
@pytest.mark.parametrize("columns", BLOCK_COLUMNS)
def test_operands_lie_apart_and_each_element_has_one_place(
    cache_format: CacheFormat, columns: int
) -> None:
    c = config_of(cache_format, columns)
    at = Storage(c)
    assert at.end <= 232_448 - 4_096
    taken: list[np.ndarray] = []
    for left, right in at.key_products(0, 1):
        taken.append(left.places(c.tile_tokens, c.depth, c.element_bytes).ravel())
        taken.append(right.places(columns, c.depth, c.element_bytes).ravel())
    for term in range(c.terms):
        for _, right in at.value_products(0, 0, term):
            taken.append(right.places(columns, c.depth, c.element_bytes).ravel())
    places = np.concatenate(taken)
    assert len(np.unique(places)) == len(places)
    tile = c.units * c.unit_bytes + c.shared_tile_bytes
    assert len(places) * c.element_bytes == tile + c.query_bytes + c.share_bytes
    # Turned or not, the latents of a tile are the same bytes.
    turned = np.concatenate(
        [
            left.places(UNIT, c.depth, c.element_bytes).ravel()
            for unit in range(c.units)
            for left, _ in at.value_products(0, unit, 0)
        ]
    )
    assert set(turned) == set(range(0, c.units * c.unit_bytes, c.element_bytes))


@pytest.mark.parametrize("cache_format", FORMATS)
def test_every_lane_of_tensor_memory_has_the_token_it_takes_for_its_own(
    cache_format: CacheFormat,
) -> None:
    c = config_of(cache_format, 16)
    per_warp = c.tile_tokens // 4
    for token in range(c.tile_tokens):
        thread = 32 * (token // per_warp) + token % per_warp
        assert lane_of(token, c.tile_tokens) == thread


@pytest.mark.parametrize("cache_format", FORMATS)
@pytest.mark.parametrize("columns", BLOCK_COLUMNS)
def test_sums_and_scores_fit_into_tensor_memory(cache_format: CacheFormat, columns: int) -> None:
    c = config_of(cache_format, columns)
    used = (c.units + c.score_sets) * columns
    assert used <= c.tensor_memory_columns <= 512
    assert c.tensor_memory_columns & (c.tensor_memory_columns - 1) == 0
    # Tiles ahead need both tiles in shared memory, or the copies wait for ever.
    assert not c.ahead or c.latent_slots >= 2 * c.units
    assert c.latent_slots > c.units
    assert c.ahead == (columns < 96)
    # Two formats, one number of bytes per tile.
    assert c.unit_bytes == 16_384
    assert c.threads == 256


@given(
    lengths=st.lists(st.integers(0, 900), min_size=1, max_size=8),
    q=st.integers(1, 8),
    parts=st.integers(1, 160),
    tile=st.sampled_from([64, 128]),
)
def test_rows_of_a_request_share_parts(lengths: list[int], q: int, parts: int, tile: int) -> None:
    visible = visible_tokens(lengths, q)
    found = pieces(visible, SplitRule(tile, 1, together=True), parts, q)
    places = [piece.partial for piece in found]
    assert len(set(places)) == len(places)
    assert all(0 <= place < partial_count(len(visible), parts, q) for place in places)
    for row, tokens in enumerate(visible):
        own = [piece for piece in found if piece.row == row]
        covered = [t for p in own for t in range(p.first_token, p.first_token + p.tokens)]
        assert covered == list(range(tokens))
        # The combination reads them at one distance.
        first = own[0].partial if own else 0
        assert [p.partial for p in own] == [first + q * i for i in range(len(own))]
        # All rows of a request attend in the same parts.
        other = [piece.part for piece in found if piece.row == row // q * q]
        assert [piece.part for piece in own] == other


def test_partials_of_rows_that_go_together_are_counted_back() -> None:
    for rows, q, parts in ((1, 1, 148), (16, 4, 37), (64, 8, 160)):
        count = partial_count(rows, parts, q)
        partials = Partials(torch.empty(count, 1, 1), torch.empty(count, 1))
        assert partials.parts(rows, q) == parts


@pytest.mark.parametrize(
    ("query_rows", "expected"),
    [(6, 16), (12, 16), (24, 32), (48, 48), (60, 96), (768, 96)],
)
def test_a_cta_has_all_query_rows_of_a_request_up_to_96(query_rows: int, expected: int) -> None:
    assert block_columns(query_rows) == expected


@pytest.mark.parametrize("tokens", [1, 17, 128, 500, 4096])
@pytest.mark.parametrize("factor", [0.0, 1.0, 3.0, 30.0])
def test_three_terms_are_as_good_as_the_format_of_the_specification(
    tokens: int, factor: float
) -> None:
    """E4M3: shares of two E4M3 and an E5M2 against what is allowed for shares of FP16."""
    c = config_of("e4m3", 16)
    generator = torch.Generator().manual_seed(tokens)
    query = unpack_e4m3(pack_e4m3(factor * torch.randn(12, c.width, generator=generator)))
    rows = unpack_e4m3(pack_e4m3(torch.randn(tokens, c.width, generator=generator)))
    scores = query @ rows.T * DIMS.mla_scale
    shares = torch.exp(scores - scores.amax(-1, keepdim=True))
    rest, kept = shares * c.share_scale, torch.zeros_like(shares)
    for dtype in (torch.float8_e4m3fn, torch.float8_e4m3fn, torch.float8_e5m2):
        term = rest.to(dtype).float()
        rest, kept = rest - term, kept + term
    found = kept @ rows[:, : c.latent] / (shares.sum(-1, keepdim=True) * c.share_scale)
    exact = attend(query.double(), rows.double(), c.latent, DIMS.mla_scale)
    rounded = attend_rounded(query, rows, c.latent, DIMS.mla_scale, torch.float16)
    judged = judge_close(
        "latents",
        found[None],
        reference=exact.latents[None],
        same_dtype=rounded.latents[None],
        shared_axes=2,
    )
    assert judged.worst < 0.5, judged.sentence


def test_pages_that_bulk_copies_cannot_bring_are_refused() -> None:
    dtype = CACHE_DTYPES["bf16"]
    cache = PagedCache(
        pages=torch.zeros(2, 24, DIMS.mla_row, dtype=dtype),
        table=torch.zeros(2, 1, dtype=torch.int32),
        lengths=torch.zeros(2, dtype=torch.int32),
        tokens_per_request=3,
    )
    partials = Partials(torch.zeros(6, 1, DIMS.kv_lora_rank), torch.zeros(6, 1))
    with pytest.raises(KernelInputError) as refusal:
        blackwell_numbers(torch.zeros(6, 1, DIMS.mla_row, dtype=dtype), cache, partials)
    assert str(refusal.value) == (
        "mla_decode: pages: expected pages of a multiple of 16 tokens, found 24: give the cache "
        "such pages"
    )


def test_a_block_that_leaves_no_room_for_a_tile_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 16, 32, 48, 96 query rows, found 64"):
        config_of("bf16", 64)
    with pytest.raises(ValueError, match="expected latents of a multiple of 128 columns"):
        MlaDecodeBlackwellConfig("bf16", 500, 64, 16)
    with pytest.raises(ValueError, match="expected room for more than 8 units"):
        MlaDecodeBlackwellConfig("bf16", 1024, 64, 48)
