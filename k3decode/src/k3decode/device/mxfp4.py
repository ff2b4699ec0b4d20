# mypy: ignore-errors
"""Blocks of MXFP4 weights on their way into tensor cores: load, de-quantise exactly, multiply.

The order of bits is that of `mxfp4_blocks`. A de-quantised pair is the masked pattern, which is the
value times 2^-126, times a power of two: every E2M1 value times every scale is exact in BF16, where
it is not, as FP32 has it too, infinite, and NaN for a scale byte of 255.
"""

from cutlass import Float32, Uint32, cute

from k3decode.mxfp4_blocks import (
    BLOCK_BYTES,
    BORROW_MASK,
    BORROW_ROTATION,
    PAIR_ROTATIONS,
    SHARED_ROTATIONS,
)

__all__ = [
    "ACTIVATION_EXPONENT",
    "BLOCK_ACCUMULATORS",
    "BLOCK_WORDS",
    "load_blocks",
    "multiply_block",
    "multiply_scaled_block",
]

ACTIVATION_EXPONENT = 112
"""Power of two on activations of `multiply_scaled_block`: SiTU's, which are at most 100, fit."""

BLOCK_WORDS = 4
"""32-bit words of a block that one lane holds, without the word of scales."""

BLOCK_ACCUMULATORS = 8
"""FP32 sums of one lane: rows g, g + 8, g + 16, g + 24 for g = lane // 4, two columns each."""

_WORD_BITS = 32
_SCALE_BLOCK_BYTES = 32
_PAIR_MASK = 0x81C081C0
# Truth table of lop3: the first operand where the third has ones, the second elsewhere.
_SELECT = 0xE4
# Two BF16 numbers 2^126, and 2^-1 as it is added to an exponent: 126 in the exponent field.
_UNIT = 0x7E807E80
_UNIT_EXPONENT = 0x3F003F00
_MANTISSA_BITS = 7
_FLOAT_MANTISSA_BITS = 23
# A masked pattern is its value times two to minus this.
_PATTERN_EXPONENT = 126
# Mantissa bit that makes 2^-127 of a zero exponent field and NaN of a full one.
_EDGE_MANTISSA = 0x00400040


def load_blocks(words, scales, rWords: cute.Tensor, rScales: cute.Tensor) -> None:
    """Load neighbouring blocks; static weights, read once, so they pass by the first-level cache.

    Args:
        words: address of the lane's first 16 bytes, Int64.
        scales: address of the lane's first word of scales, Int64.
        rWords: [blocks, 4], Uint32.
        rScales: [blocks], Uint32.
    """
    for block in range(rScales.shape[0]):
        found = cute.arch.inline_ptx(
            "ld.global.L1::no_allocate.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, "
            f"[{{$r0}}+{BLOCK_BYTES * block}];",
            write_only_types=[Uint32] * BLOCK_WORDS,
            read_only_args=[words],
        )
        for word in range(BLOCK_WORDS):
            rWords[block, word] = found[word]
        rScales[block] = cute.arch.inline_ptx(
            f"ld.global.L1::no_allocate.b32 {{$w0}}, [{{$r0}}+{_SCALE_BLOCK_BYTES * block}];",
            write_only_types=[Uint32],
            read_only_args=[scales],
        )


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


def multiply_scaled_block(sums: list, words: list, scales, activations: list) -> list:
    """The same for activations times 2^112, and scale bytes up to 127.

    The scales multiply the group's sums instead of the weights, which is half the work, and no less
    exact: patterns times 2^-126 meet activations that bring their products back into FP32's normal
    range. The sums are those of the activations themselves.
    """
    result = []
    for unit in range(2):
        first, second = _pairs(words[2 * unit], words[2 * unit + 1])
        tile = [Float32(0.0)] * 4
        for half in range(2):
            low, high = 2 * half, 2 * half + 1
            tile = _multiply_accumulate(
                [first[low], second[low], first[high], second[high]],
                [activations[low], activations[high]],
                tile,
            )
        for row in range(2):
            factor = _late_factor(scales, 2 * unit + row)
            for column in range(2):
                place = 2 * row + column
                result.append(sums[4 * unit + place] + factor * tile[place])
    return result


def _pairs(first, second) -> tuple[list, list]:
    """Four pairs of each of two rows, BF16 times 2^-126."""
    borrowed = _rotated(second, _WORD_BITS - BORROW_ROTATION)
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
    """Rotate to the right."""
    if places == 0:
        return word
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
    exponent = spread << _MANTISSA_BITS
    if not wide_scales:
        return exponent + Uint32(_UNIT_EXPONENT)
    return exponent | _edge_mantissa(spread)


def _late_factor(scales, row: int):
    """FP32 2^(s - 127) for products of patterns, times 2^-126, and activations, times 2^112."""
    byte = cute.arch.inline_ptx(
        f"prmt.b32 {{$w0}}, {{$r0}}, 0, {0x4440 + row:#x};",
        write_only_types=[Uint32],
        read_only_args=[scales],
    )
    bits = (byte << _FLOAT_MANTISSA_BITS) + Uint32(
        (_PATTERN_EXPONENT - ACTIVATION_EXPONENT) << _FLOAT_MANTISSA_BITS
    )
    return bits.bitcast(Float32)


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
