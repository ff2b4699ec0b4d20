# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the embedding gather: one CTA copies one row with 16-byte accesses."""

import cuda.bindings.driver as cuda
from cutlass import BFloat16, Int32, Int64, cute

from k3decode.device.row_io import VECTOR_WIDTH, row_tensor, write_vector
from k3decode.ops.embedding.config import EmbeddingConfig

__all__ = ["EmbeddingKernel"]

_MANY_ROWS = 1 << 20


class EmbeddingKernel:
    """Fixes the row width at compile time."""

    def __init__(self, config: EmbeddingConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        tokens: cute.Pointer,
        table: cute.Pointer,
        out: cute.Pointer,
        table_stride: Int64,
        out_stride: Int64,
        first_token: Int32,
        table_rows: Int32,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` tokens; the table holds ids first_token .. + table_rows - 1."""
        width = self.config.hidden_size
        self.kernel(
            cute.make_tensor(tokens, cute.make_layout(_MANY_ROWS)),
            row_tensor(table, width, table_stride),
            row_tensor(out, width, out_stride),
            first_token,
            table_rows,
        ).launch(grid=[rows, 1, 1], block=[self.config.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(
        self,
        mTokens: cute.Tensor,
        mTable: cute.Tensor,
        mOut: cute.Tensor,
        first_token: Int32,
        table_rows: Int32,
    ):
        """One row: the token's, or zeros for a token of another shard."""
        tid, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        local = mTokens[row] - first_token
        rRow = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
        rRow.fill(0.0)
        if local >= 0 and local < table_rows:
            cute.autovec_copy(cute.local_tile(mTable[local, None], (VECTOR_WIDTH,), (tid,)), rRow)
        write_vector(rRow, mOut[row, None], tid)
