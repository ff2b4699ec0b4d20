# mypy: ignore-errors
"""Rows in memory as 16-byte vectors of BF16, one vector per thread."""

from cutlass import Int64, cute

__all__ = ["VECTOR_WIDTH", "WARP_SIZE", "read_vector", "row_tensor", "write_vector"]

WARP_SIZE = 32

VECTOR_WIDTH = 8
"""BF16 values in one 16-byte access."""

# Rows are bounded by the launch; the layout only needs a shape that contains them.
_MANY_ROWS = 1 << 20


def row_tensor(pointer: cute.Pointer, width: int, stride: Int64) -> cute.Tensor:
    """View rows [rows, width] whose stride (in elements) is a multiple of one vector."""
    layout = cute.make_layout(
        (_MANY_ROWS, width), stride=(cute.assume(stride, divby=VECTOR_WIDTH), 1)
    )
    return cute.make_tensor(pointer, layout)


def read_vector(row: cute.Tensor, index: int, width: int = VECTOR_WIDTH) -> cute.Tensor:
    """Copy vector `index` of a row to registers."""
    fragment = cute.make_rmem_tensor((width,), row.element_type)
    cute.autovec_copy(cute.local_tile(row, (width,), (index,)), fragment)
    return fragment


def write_vector(
    fragment: cute.Tensor, row: cute.Tensor, index: int, width: int = VECTOR_WIDTH
) -> None:
    """Copy registers to vector `index` of a row."""
    cute.autovec_copy(fragment, cute.local_tile(row, (width,), (index,)))
