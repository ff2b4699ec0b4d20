import math

import pytest
import torch

from k3decode.formats import pack_e4m3
from k3decode.tolerance import judge_bitwise, judge_close, judge_e4m3

ROW = torch.tensor([[1.0, 2.0, -3.0, 0.0]], dtype=torch.float64)


def test_judge_close_allows_two_quanta_where_torch_is_exact() -> None:
    quantum = 2.0**-7
    inside = (ROW + torch.tensor([2 * quantum, 0, 0, 0])).to(torch.bfloat16)
    outside = (ROW + torch.tensor([3 * quantum, 0, 0, 0])).to(torch.bfloat16)
    assert judge_close("x", inside, reference=ROW, same_dtype=ROW).passed
    found = judge_close("x", outside, reference=ROW, same_dtype=ROW)
    assert not found.passed
    assert found.worst == 1.5
    assert "at [0, 0]" in found.sentence


def test_judge_close_allows_twice_the_error_of_torch_in_the_same_row_only() -> None:
    reference = ROW.expand(2, -1)
    same_dtype = reference.clone()
    same_dtype[0] += 0.25
    actual = (reference + 0.5).to(torch.bfloat16)
    found = judge_close("x", actual, reference=reference, same_dtype=same_dtype)
    assert not found.passed
    assert "at [1," in found.sentence
    assert judge_close("x", actual[:1], reference=reference[:1], same_dtype=same_dtype[:1]).passed


def test_judge_close_wants_nan_and_infinities_in_their_places() -> None:
    reference = torch.tensor([[math.nan, math.inf, 1.0]], dtype=torch.float64)
    assert judge_close("x", reference.float(), reference=reference, same_dtype=reference).passed
    for bad in ([0.0, math.inf, 1.0], [math.nan, -math.inf, 1.0], [math.nan, math.inf, math.nan]):
        actual = torch.tensor([bad])
        assert not judge_close("x", actual, reference=reference, same_dtype=reference).passed


def test_judge_close_fails_an_output_left_poisoned() -> None:
    left = torch.full_like(ROW, math.nan).to(torch.bfloat16)
    assert not judge_close("x", left, reference=ROW, same_dtype=ROW).passed


@pytest.mark.parametrize("beyond", [math.inf, math.nan])
def test_torch_that_leaves_its_format_allows_nothing(beyond: float) -> None:
    same_dtype = ROW.clone()
    same_dtype[0, 2] = beyond
    found = judge_close("x", ROW.float(), reference=ROW, same_dtype=same_dtype)
    assert not found.passed
    assert "near -3 at [0, 2], found that it leaves the format" in found.sentence
    codes = judge_e4m3("x", pack_e4m3(ROW), reference=ROW, same_dtype=same_dtype, scale=1.0)
    assert not codes.passed
    assert judge_e4m3("x", pack_e4m3(ROW), reference=ROW, same_dtype=ROW, scale=1.0).passed


def test_judge_bitwise_tells_zeros_apart_and_equals_nan() -> None:
    assert judge_bitwise("x", torch.tensor([math.nan]), torch.tensor([math.nan])).passed
    found = judge_bitwise("x", torch.tensor([1.0, -0.0]), torch.tensor([1.0, 0.0]))
    assert not found.passed
    assert "1 that differ, the first at [1]" in found.sentence
