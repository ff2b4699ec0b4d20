# mypy: ignore-errors
"""FP8 E4M3 in registers: four values to 32 bits, exact as FP16."""

from cutlass import Float32, Int32, cute

__all__ = ["gather_columns", "halves_from_e4m3", "pack_e4m3"]

# Bytes 0 and 2 to the lower half, 1 and 3 to the upper one.
_EVEN_THEN_ODD = 0x3120


def halves_from_e4m3(four: Int32) -> tuple:
    """FP16 pairs of the lower and of the upper two bytes; every E4M3 value is exact."""
    return cute.arch.inline_ptx(
        "{ .reg .b16 low, high; mov.b32 {low, high}, {$r0}; "
        "cvt.rn.f16x2.e4m3x2 {$w0}, low; cvt.rn.f16x2.e4m3x2 {$w1}, high; }",
        write_only_types=[Int32, Int32],
        read_only_args=[four],
    )


def gather_columns(two_rows: Int32) -> Int32:
    """From two columns of one row and two of the next to two rows of each column."""
    return cute.arch.inline_ptx(
        f"prmt.b32 {{$w0}}, {{$r0}}, {{$r0}}, {_EVEN_THEN_ODD};",
        write_only_types=[Int32],
        read_only_args=[two_rows],
    )


def pack_e4m3(values: list[Float32]) -> Int32:
    """Round four values to the nearest E4M3, saturate at its largest, keep NaN; first lowest."""
    return cute.arch.inline_ptx(
        "{ .reg .b16 low, high; "
        "cvt.rn.satfinite.e4m3x2.f32 low, {$r1}, {$r0}; "
        "cvt.rn.satfinite.e4m3x2.f32 high, {$r3}, {$r2}; "
        "mov.b32 {$w0}, {low, high}; }",
        write_only_types=[Int32],
        read_only_args=values,
    )
