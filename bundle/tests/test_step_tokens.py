"""Requests x (1 + drafts), and which of those token counts a path is prepared for."""

import pytest

from k3bundle.step_tokens import LATENCY_SPECIALIZED, prepared_tokens, step_tokens


@pytest.mark.parametrize(
    ("requests", "drafts", "tokens"),
    [(1, 0, 1), (64, 0, 64), (8, 7, 64), (16, 7, 128), (16, 3, 64)],
)
def test_step_tokens_are_requests_times_one_plus_drafts(
    requests: int, drafts: int, tokens: int
) -> None:
    assert step_tokens(requests, drafts) == tokens


@pytest.mark.parametrize(("requests", "drafts"), [(0, 0), (-1, 3), (1, -1)])
def test_step_tokens_refuses_numbers_out_of_range(requests: int, drafts: int) -> None:
    with pytest.raises(ValueError, match="take both from the cell"):
        step_tokens(requests, drafts)


def test_without_speculation_64_requests_are_the_most() -> None:
    prepared = prepared_tokens(LATENCY_SPECIALIZED, (), 0)
    assert prepared.sizes == (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64)
    assert prepared.padded(9) == 16
    assert prepared.padded(33) == 64
    assert prepared.padded(64) == 64
    assert prepared.first_beyond() == 65
    assert prepared.why_stock(64) is None


@pytest.mark.parametrize(("drafts", "most"), [(7, 8), (3, 16), (1, 32), (0, 64)])
def test_the_limit_is_in_tokens_so_drafts_lower_the_requests(drafts: int, most: int) -> None:
    prepared = prepared_tokens(LATENCY_SPECIALIZED, (), drafts)
    assert prepared.most_requests == most
    assert prepared.padded(most) == 64
    assert prepared.padded(most + 1) is None


def test_16_requests_with_7_drafts_are_named_as_stock() -> None:
    prepared = prepared_tokens(LATENCY_SPECIALIZED, (), 7)
    assert prepared.why_stock(16) == (
        "16 requests x (1 + 7 drafts) are 128 tokens, and the path is prepared for at most 64: "
        "stock serves this size."
    )


def test_capture_sizes_are_rounded_up_to_whole_groups_and_cut_at_the_limit() -> None:
    prepared = prepared_tokens(LATENCY_SPECIALIZED, (20, 48, 96, 0), 3)
    assert prepared.sizes == (4, 8, 16, 20, 32, 48, 64)


def test_cells_between_prepared_counts_are_just_above_each() -> None:
    assert prepared_tokens(LATENCY_SPECIALIZED, (), 0).between() == (9, 17, 33)
    assert prepared_tokens(LATENCY_SPECIALIZED, (10,), 0).between() == (9, 11, 17, 33)


def test_nothing_prepared_means_stock_serves_everything() -> None:
    prepared = prepared_tokens(LATENCY_SPECIALIZED, (), 99)
    assert prepared.largest == 0
    assert prepared.padded(1) is None
    assert prepared.first_beyond() == 1
    assert prepared.between() == ()
