# mypy: ignore-errors
"""Warp-wide matrix instructions: fragments from shared memory, and one product of 16 x 8 x 16.

A fragment is a tuple of 32-bit registers, each two 16-bit values. With lane = 4 g + t, the left
operand [16, 16] holds rows g and g + 8 at columns 2 t and 2 t + 8, the right one [16, 8] column g
at rows 2 t and 2 t + 8, the sums [16, 8] rows g and g + 8 at columns 2 t and 2 t + 1.
"""

from cutlass import Float32, Int32, cute

__all__ = ["PRODUCT_K", "PRODUCT_M", "PRODUCT_N", "load_matrices", "pack_pair", "product"]

PRODUCT_M, PRODUCT_N, PRODUCT_K = 16, 8, 16
"""Rows, columns and depth of one product."""


def load_matrices(address: Int32, offset: int = 0, *, transposed: bool = False) -> tuple:
    """Read four 8 x 8 matrices of 16-bit values from shared memory.

    Args:
        address: of row lane % 8 of matrix lane // 8, in bytes, a multiple of 16.
        offset: constant added to every address, in bytes.
        transposed: exchange rows and columns of each matrix.

    Returns:
        One register per matrix: row g, columns 2 t and 2 t + 1.
    """
    form = ".trans" if transposed else ""
    return cute.arch.inline_ptx(
        f"ldmatrix.sync.aligned.m8n8.x4{form}.shared.b16 "
        f"{{{{$w0}}, {{$w1}}, {{$w2}}, {{$w3}}}}, [{{$r0}}+{offset}];",
        write_only_types=[Int32] * 4,
        read_only_args=[address],
    )


def product(sums: list, left: tuple, right: tuple, *, form: str) -> tuple:
    """`left @ right` added to the four FP32 sums; `form` is "bf16" or "f16"."""
    return cute.arch.inline_ptx(
        f"mma.sync.aligned.m16n8k16.row.col.f32.{form}.{form}.f32 "
        "{{$w0}, {$w1}, {$w2}, {$w3}}, {{$r0}, {$r1}, {$r2}, {$r3}}, {{$r4}, {$r5}}, "
        "{{$r6}, {$r7}, {$r8}, {$r9}};",
        write_only_types=[Float32] * 4,
        read_only_args=[*left, *right, *sums],
    )


def pack_pair(low: Float32, high: Float32, *, form: str) -> Int32:
    """Round two values to "bf16" or "f16"; `low` goes to the lower half of the register."""
    return cute.arch.inline_ptx(
        f"cvt.rn.{form}x2.f32 {{$w0}}, {{$r0}}, {{$r1}};",
        write_only_types=[Int32],
        read_only_args=[high, low],
    )
