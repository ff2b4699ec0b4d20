import math

import pytest
import torch

from k3decode.formats import (
    E2M1_VALUES,
    E4M3_MAX,
    MXFP4_GROUP,
    pack_e4m3,
    pack_mxfp4,
    unpack_e4m3,
    unpack_mxfp4,
)


def test_unpack_mxfp4_of_every_nibble_and_scale() -> None:
    nibbles = torch.arange(MXFP4_GROUP, dtype=torch.uint8) % 16
    packed = (nibbles[0::2] | (nibbles[1::2] << 4)).expand(256, -1)
    scales = torch.arange(256, dtype=torch.uint8)[:, None]
    values = unpack_mxfp4(packed, scales)
    for scale in range(256):
        for column in range(16):
            magnitude = E2M1_VALUES[column % 8]
            sign = -1.0 if column >= 8 else 1.0
            found = values[scale, column].item()
            if scale == 255:
                assert math.isnan(found)
                continue
            try:
                expected = sign * math.ldexp(magnitude, scale - 127)
            except OverflowError:
                expected = sign * math.inf
            if abs(expected) > torch.finfo(torch.float32).max:
                expected = sign * math.inf
            assert found == expected
            assert math.copysign(1.0, found) == sign


def test_unpack_mxfp4_takes_the_low_nibble_as_the_even_column() -> None:
    packed = torch.zeros(MXFP4_GROUP // 2, dtype=torch.uint8)
    packed[0] = 0x21
    values = unpack_mxfp4(packed, torch.tensor([127], dtype=torch.uint8))
    assert values[:3].tolist() == [0.5, 1.0, 0.0]


def test_pack_mxfp4_returns_every_representable_group() -> None:
    codes = torch.arange(MXFP4_GROUP, dtype=torch.uint8) % 16
    packed = (codes[0::2] | (codes[1::2] << 4)).expand(252, -1)
    # Above 252 six times the factor is not finite in FP32.
    scales = torch.arange(252, dtype=torch.uint8)[:, None]
    again, again_scales = pack_mxfp4(unpack_mxfp4(packed, scales))
    assert torch.equal(again, packed)
    assert torch.equal(again_scales, scales)


def test_pack_mxfp4_rounds_ties_to_the_even_code_and_saturates() -> None:
    group = torch.zeros(MXFP4_GROUP)
    group[:6] = torch.tensor([7.9, 0.25, 0.75, 1.25, 2.5, 5.0])
    packed, scales = pack_mxfp4(group)
    assert scales.tolist() == [127]
    assert unpack_mxfp4(packed, scales)[:6].tolist() == [6.0, 0.0, 1.0, 1.0, 2.0, 4.0]


def test_pack_mxfp4_of_zeros_keeps_signs() -> None:
    packed, scales = pack_mxfp4(-torch.zeros(MXFP4_GROUP))
    assert torch.signbit(unpack_mxfp4(packed, scales)).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_pack_mxfp4_refuses_values_without_a_code(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        pack_mxfp4(torch.full((MXFP4_GROUP,), bad))


def test_mxfp4_refuses_widths_that_do_not_belong_together() -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        pack_mxfp4(torch.zeros(33))
    with pytest.raises(ValueError, match="one scale per 32"):
        unpack_mxfp4(torch.zeros(32, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8))


def test_e4m3_of_every_byte_survives() -> None:
    every = torch.arange(256, dtype=torch.uint8)
    values = unpack_e4m3(every)
    nan = torch.isnan(values)
    assert every[nan].tolist() == [0x7F, 0xFF]
    assert torch.equal(pack_e4m3(values[~nan]), every[~nan])


def test_pack_e4m3_saturates_and_scales() -> None:
    assert unpack_e4m3(pack_e4m3(torch.tensor([1e6, -1e6]))).tolist() == [E4M3_MAX, -E4M3_MAX]
    assert unpack_e4m3(pack_e4m3(torch.tensor([6.0]), 2.0), 2.0).tolist() == [6.0]
