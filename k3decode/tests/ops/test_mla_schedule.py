"""How the line of tiles is cut, and how places in shared memory and registers add up."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from k3decode.dims import K3Dims
from k3decode.ops.mla_combine.launch import config_for as combine_config
from k3decode.ops.mla_decode.launch import config_for, split_rule
from k3decode.ops.mla_decode.schedule import SplitRule, partial_count, pieces, visible_tokens

RULES = st.builds(SplitRule, tile_tokens=st.sampled_from([16, 32]), fewest_tiles=st.integers(1, 5))


@given(
    visible=st.lists(st.integers(0, 400), min_size=1, max_size=64),
    rule=RULES,
    parts=st.integers(1, 160),
)
def test_every_token_has_one_part_and_every_piece_a_place_of_its_own(
    visible: list[int], rule: SplitRule, parts: int
) -> None:
    found = pieces(visible, rule, parts)
    for row, tokens in enumerate(visible):
        own = [piece for piece in found if piece.row == row]
        covered = [t for p in own for t in range(p.first_token, p.first_token + p.tokens)]
        assert covered == list(range(tokens))
        assert all(piece.first_token % rule.tile_tokens == 0 for piece in own)
    places = [piece.partial for piece in found]
    assert len(set(places)) == len(places)
    assert all(0 <= place < partial_count(len(visible), parts) for place in places)
    assert all(piece.part < parts for piece in found)


@given(
    visible=st.lists(st.integers(1, 5000), min_size=1, max_size=64),
    rule=RULES,
    parts=st.integers(1, 160),
)
def test_parts_have_equal_work_but_the_last(
    visible: list[int], rule: SplitRule, parts: int
) -> None:
    work: dict[int, int] = {}
    for piece in pieces(visible, rule, parts):
        work[piece.part] = work.get(piece.part, 0) - (-piece.tokens // rule.tile_tokens)
    *full, last = (work[part] for part in sorted(work))
    assert len(set(full)) <= 1
    assert not full or (last <= full[0] and full[0] >= rule.fewest_tiles)


def test_the_partials_of_a_row_follow_each_other() -> None:
    # The combination reads them as a range.
    found = pieces([900, 0, 33, 5000], SplitRule(16, 2), 7)
    for row in range(4):
        places = [piece.partial for piece in found if piece.row == row]
        assert places == list(range(places[0], places[0] + len(places))) if places else row == 1


def test_rows_of_a_request_see_one_token_more_than_the_row_before() -> None:
    assert visible_tokens([5, 2, 0], 3) == [3, 4, 5, 0, 1, 2, 0, 0, 0]
    assert visible_tokens([7], 1) == [7]


@pytest.mark.parametrize("cache_format", ["bf16", "e4m3"])
def test_a_tile_is_copied_whole_and_read_without_bank_conflicts(cache_format: str) -> None:
    config = config_for(K3Dims(), cache_format)
    copied = {
        (thread // config.threads_per_row, 16 * (thread % config.threads_per_row) + offset)
        for thread in range(config.group_threads)
        for offset in range(0, config.row_bytes, 16 * config.threads_per_row)
    }
    expected = {(r, b) for r in range(config.tile_tokens) for b in range(0, config.row_bytes, 16)}
    assert copied == expected
    # Eight rows of a matrix, 16 bytes each: all 32 banks once.
    banks = {(row * config.pitch_bytes // 4 + word) % 32 for row in range(8) for word in range(4)}
    assert len(banks) == 32


@pytest.mark.parametrize("cache_format", ["bf16", "e4m3"])
def test_a_thread_writes_every_column_of_its_quarter_once(cache_format: str) -> None:
    """The index arithmetic of the kernel's last step, lane by lane."""
    config = config_for(K3Dims(), cache_format)
    written = []
    for lane in range(32):
        for columns in range(config.column_blocks):
            for upper in range(2):
                at, first = 8 * columns + 2 * upper, 16 * columns
                head = lane // 4 + 8 * upper
                if cache_format == "bf16":
                    for half in range(2):
                        column = first + 8 * half + 2 * (lane % 4)
                        written += [(head, column + i, at + 4 * half + i) for i in range(2)]
                else:
                    column = first + 4 * (lane % 4)
                    written += [(head, column + i, at + 4 * (i % 2) + i // 2) for i in range(4)]
    places = [(head, column) for head, column, _ in written]
    quarter = config.latent // config.group_warps
    assert sorted(places) == [(head, column) for head in range(16) for column in range(quarter)]
    assert {register for _, _, register in written} == set(range(config.sums))


def test_a_workspace_is_as_large_as_it_says() -> None:
    config = config_for(K3Dims(), "bf16")
    rule = SplitRule(tile_tokens=16, fewest_tiles=2, together=True)
    assert split_rule(config, torch.device("cpu")) == rule
    # 64 rows on 132 processors, 12 heads: 4.8 MB.
    assert partial_count(64, 132) * 12 * (config.latent + 1) * 4 == 4_801_680


@pytest.mark.parametrize(
    ("rows", "heads", "expected"), [(1, 12, 1), (8, 12, 2), (64, 12, 8), (8, 96, 8)]
)
def test_few_rows_are_combined_one_by_one_and_many_together(
    rows: int, heads: int, expected: int
) -> None:
    config = combine_config(K3Dims(), "parts", "values")
    assert config.rows_per_cta(rows, heads) == expected
