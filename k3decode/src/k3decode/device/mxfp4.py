# mypy: ignore-errors
"""Blocks of MXFP4 weights on their way into tensor cores: de-quantise exactly, multiply.

The order of bits is that of `mxfp4_blocks`. A de-quantised pair is the masked pattern, which is the
value times 2^-126, times a power of two: every E2M1 value times every scale is exact in BF16, where
it is not, as FP32 has it too, infinite, and NaN for a scale byte of 255.
"""

from cutlass import Float32, Uint32, cute

from k3decode.mxfp4_blocks import (
    BORROW_MASK,
    BORROW_ROTATION,
    PAIR_ROTATIONS,
    SHARED_ROTATIONS,
)

__all__ = [
    "ACTIVATION_EXPONENT",
    "BLOCK_ACCUMULATORS",
    "BLOCK_WORDS",
    "GROUP_PAIRS",
    "dequantised_group",
    "exceeds_scaled_range",
    "multiply_block",
    "multiply_scaled_block",
    "multiply_scaled_chunk",
    "scaled_activation",
    "scaling_factor",
    "sum_exponent",
]

ACTIVATION_EXPONENT = 112
"""Power of two on activations of `multiply_scaled_block`; those below 2^15 stay in range."""

BLOCK_WORDS = 4
"""32-bit words of a block that one lane holds, without the word of scales."""

BLOCK_ACCUMULATORS = 8
"""FP32 sums of one lane: rows g, g + 8, g + 16, g + 24 for g = lane // 4, two columns each."""

GROUP_PAIRS = 16
"""Pairs of BF16 numbers of a group of one row."""

_WORD_BITS = 32
_PAIR_MASK = 0x81C081C0
# Lowest place of a pair: shifted to the left by no more, none of its bits has come round.
_LOSSLESS_SHIFT = 6
# Truth table of lop3: the first operand where the third has ones, the second elsewhere.
_SELECT = 0xE4
# Two BF16 numbers 2^126, and 2^-1 as it is added to an exponent: 126 in the exponent field.
_UNIT = 0x7E807E80
_UNIT_EXPONENT = 0x3F003F00
_MANTISSA_BITS = 7
_FLOAT_MANTISSA_BITS = 23
# A BF16 magnitude of 2^15 or more, and nothing smaller, carries into the sign's place.
_MAGNITUDES = 0x7FFF7FFF
_TO_SIGN = 0x39003900
_SIGNS = 0x80008000
_BOTH_HALVES = 0x00010001
_BIAS = 127
# A masked pattern is its value times two to minus this.
_PATTERN_EXPONENT = 126
# Mantissa bit that makes 2^-127 of a zero exponent field and NaN of a full one.
_EDGE_MANTISSA = 0x00400040


def multiply_block(
    sums: list, words: list, scales, activations: list, *, wide_scales: bool
) -> list:
    """Add a block times 32 rows of up to eight columns.

    Args:
        sums: `BLOCK_ACCUMULATORS` FP32 values.
        words: the lane's four words of the block.
        scales: the lane's word of scales.
        activations: four words, values 8 t to 8 t + 7 of column lane // 4, for t = lane % 4.
        wide_scales: whether a scale byte may be above 127.

    Returns:
        The new sums.
    """
    factors = [_factor(scales, row, wide_scales) for row in range(BLOCK_WORDS)]
    result = []
    for unit in range(2):
        first, second = _pairs(words[2 * unit], words[2 * unit + 1])
        first = [_scaled(pair, factors[2 * unit], wide_scales) for pair in first]
        second = [_scaled(pair, factors[2 * unit + 1], wide_scales) for pair in second]
        tile = sums[4 * unit : 4 * unit + 4]
        for half in range(2):
            low, high = 2 * half, 2 * half + 1
            tile = _multiply_accumulate(
                [first[low], second[low], first[high], second[high]],
                [activations[low], activations[high]],
                tile,
            )
        result += tile
    return result


def multiply_scaled_block(
    sums: list, words: list, scales, activations: list, exponent=None
) -> list:
    """The same for activations times a power of two, and scale bytes up to 127.

    The scales multiply the group's sums instead of the weights, which is half the work, and no less
    exact: patterns times 2^-126 meet activations that bring their products back into FP32's normal
    range. The sums are those of the activations themselves.

    Args:
        sums: as above.
        words: as above.
        scales: as above.
        activations: as above, times a power of two.
        exponent: `sum_exponent` of that power; of `ACTIVATION_EXPONENT` if absent.
    """
    if exponent is None:
        exponent = Uint32((_PATTERN_EXPONENT - ACTIVATION_EXPONENT) << _FLOAT_MANTISSA_BITS)
    result = []
    for unit in range(2):
        tile = _unit_products(words, unit, activations)
        for row in range(2):
            factor = _late_factor(scales, 2 * unit + row, exponent)
            for column in range(2):
                place = 2 * row + column
                result.append(sums[4 * unit + place] + factor * tile[place])
    return result


def multiply_scaled_chunk(
    sums: list, words: list, scales: list, activations: list, exponent=None
) -> list:
    """Add two blocks of the same 32 rows, times up to four tokens.

    A token has two columns of a product, one for each block: in one are its activations of the
    first block's group, in the other those of the second's. Of each block's products those with its
    own group are kept, so a lane holds half of a token's activations, and half as many sums.

    Args:
        sums: FP32 of rows g, g + 8, g + 16, g + 24 for g = lane // 4, of token lane % 4.
        words: the lane's four words of both blocks.
        scales: the lane's word of scales of both.
        activations: four words, values 8 t to 8 t + 7 of token lane // 8, for t = lane % 4, of the
            first block's group where lane // 4 is even and of the second's elsewhere, scaled as for
            `multiply_scaled_block`.
        exponent: as for `multiply_scaled_block`.

    Returns:
        The new sums.
    """
    if exponent is None:
        exponent = Uint32((_PATTERN_EXPONENT - ACTIVATION_EXPONENT) << _FLOAT_MANTISSA_BITS)
    result = []
    for unit in range(2):
        tiles = [_unit_products(block, unit, activations) for block in words]
        for row in range(2):
            total = sums[2 * unit + row]
            for block in range(2):
                factor = _late_factor(scales[block], 2 * unit + row, exponent)
                total = total + factor * tiles[block][2 * row + block]
            result.append(total)
    return result


def _unit_products(words: list, unit: int, activations: list) -> list:
    """Sixteen rows of a block times eight columns, from nothing."""
    first, second = _pairs(words[2 * unit], words[2 * unit + 1])
    tile = [Float32(0.0)] * 4
    for half in range(2):
        low, high = 2 * half, 2 * half + 1
        tile = _multiply_accumulate(
            [first[low], second[low], first[high], second[high]],
            [activations[low], activations[high]],
            tile,
        )
    return tile


def dequantised_group(words: list, scales, place: int, *, wide_scales: bool) -> list:
    """One group of one row, exactly: its columns two by two, in order.

    Args:
        words: the group's four words.
        scales: a word with the group's scale.
        place: byte of the scale in it.
        wide_scales: whether a scale byte may be above 127.
    """
    factor = _factor(scales, place, wide_scales)
    pairs = []
    for unit in range(2):
        first, second = _pairs(words[2 * unit], words[2 * unit + 1])
        pairs += [_scaled(pair, factor, wide_scales) for pair in (*first, *second)]
    return pairs


def _pairs(first, second) -> tuple[list, list]:
    """Four pairs of each of two rows, BF16 times 2^-126."""
    borrowed = second << BORROW_ROTATION
    # Written out, since the compiler makes two instructions of a choice between bits.
    shared = cute.arch.inline_ptx(
        f"{{ .reg .b32 mask; mov.b32 mask, {BORROW_MASK:#x}; "
        f"lop3.b32 {{$w0}}, {{$r0}}, {{$r1}}, mask, {_SELECT:#x}; }}",
        write_only_types=[Uint32],
        read_only_args=[first, borrowed],
    )
    rows = []
    for word, shared_rotation in zip((first, second), SHARED_ROTATIONS, strict=True):
        raw = [_rotated(word, places) for places in PAIR_ROTATIONS]
        raw.append(_rotated(shared, shared_rotation))
        rows.append([pair & Uint32(_PAIR_MASK) for pair in raw])
    return rows[0], rows[1]


def _rotated(word, places: int):
    """Rotate to the right, or shift to the left where that brings the same bits into place."""
    if places == 0:
        return word
    if _WORD_BITS - places <= _LOSSLESS_SHIFT:
        return word << (_WORD_BITS - places)
    return cute.arch.inline_ptx(
        f"shf.r.wrap.b32 {{$w0}}, {{$r0}}, {{$r0}}, {places};",
        write_only_types=[Uint32],
        read_only_args=[word],
    )


def _factor(scales, row: int, wide_scales: bool):
    """Two copies of a row's power of two: 2^(s - 1), or 2^(s - 127) where scales are wide."""
    spread = cute.arch.inline_ptx(
        f"prmt.b32 {{$w0}}, {{$r0}}, 0, {0x4040 + 0x0101 * row:#x};",
        write_only_types=[Uint32],
        read_only_args=[scales],
    )
    if not wide_scales:
        return cute.arch.inline_ptx(
            f"mad.lo.u32 {{$w0}}, {{$r0}}, {1 << _MANTISSA_BITS}, {_UNIT_EXPONENT};",
            write_only_types=[Uint32],
            read_only_args=[spread],
        )
    return (spread << _MANTISSA_BITS) | _edge_mantissa(spread)


def exceeds_scaled_range(pair):
    """Not zero where a BF16 of the pair is too large for `ACTIVATION_EXPONENT`, or no number."""
    return ((pair & Uint32(_MAGNITUDES)) + Uint32(_TO_SIGN)) & Uint32(_SIGNS)


def scaling_factor(power):
    """Two BF16 numbers 2^power, for a power of 0 to `ACTIVATION_EXPONENT`."""
    return Uint32(power + _BIAS) * Uint32(_BOTH_HALVES << _MANTISSA_BITS)


def scaled_activation(pair, factor):
    """The pair times a `scaling_factor`."""
    return _scaled(pair, factor, wide_scales=False)


def sum_exponent(power):
    """What the exponents of scales lack where activations were multiplied by 2^power."""
    return Uint32(_PATTERN_EXPONENT - power) << _FLOAT_MANTISSA_BITS


def _late_factor(scales, row: int, exponent):
    """FP32 2^(s - 127) for products of patterns, times 2^-126, and scaled activations."""
    byte = cute.arch.inline_ptx(
        f"prmt.b32 {{$w0}}, {{$r0}}, 0, {0x4440 + row:#x};",
        write_only_types=[Uint32],
        read_only_args=[scales],
    )
    return ((byte << _FLOAT_MANTISSA_BITS) + exponent).bitcast(Float32)


@cute.jit
def _edge_mantissa(spread: Uint32) -> Uint32:
    """Mantissa bits of a factor: none, except for the scale bytes 0 and 255."""
    edge = (spread + Uint32(1)) & Uint32(0xFE)
    return Uint32(_EDGE_MANTISSA) if edge == Uint32(0) else Uint32(0)


def _scaled(pair, factor, wide_scales: bool):
    """The value itself; denormal numbers are kept.

    A wide scale takes two steps, as no BF16 number is as large as 2^253.
    """
    if wide_scales:
        pair = cute.arch.inline_ptx(
            "{ .reg .b32 unit; "
            f"mov.b32 unit, {_UNIT:#x}; mul.rn.bf16x2 {{$w0}}, {{$r0}}, unit; }}",
            write_only_types=[Uint32],
            read_only_args=[pair],
        )
    return cute.arch.inline_ptx(
        "mul.rn.bf16x2 {$w0}, {$r0}, {$r1};",
        write_only_types=[Uint32],
        read_only_args=[pair, factor],
    )


def _multiply_accumulate(a: list, b: list, c: list) -> list:
    """One 16 x 8 x 16 product of BF16 fragments, summed in FP32."""
    found = cute.arch.inline_ptx(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{$w0}, {$w1}, {$w2}, {$w3}}, "
        "{{$r0}, {$r1}, {$r2}, {$r3}}, {{$r4}, {$r5}}, {{$r6}, {$r7}, {$r8}, {$r9}};",
        write_only_types=[Float32] * 4,
        read_only_args=[*a, *b, *c],
    )
    return list(found)
