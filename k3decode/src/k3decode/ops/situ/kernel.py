# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the SiTU activation: one thread per eight columns of a row."""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute

from k3decode.device.activation import situ
from k3decode.device.row_io import VECTOR_WIDTH, read_vector, write_vector
from k3decode.ops.situ.config import SituConfig

__all__ = ["SituKernel"]

_MANY = 1 << 20


class SituKernel:
    """Fixes the bounds at compile time; rows may have any width that is a multiple of eight."""

    def __init__(self, config: SituConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        gate_up: cute.Pointer,
        out: cute.Pointer,
        gate_up_stride: Int64,
        out_stride: Int64,
        rows: Int32,
        vectors: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` rows of `vectors` times eight activated columns."""
        per_cta = self.config.threads
        self.kernel(_rows(gate_up, gate_up_stride), _rows(out, out_stride), vectors).launch(
            grid=[(vectors + per_cta - 1) // per_cta, rows, 1],
            block=[per_cta, 1, 1],
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mGateUp: cute.Tensor, mOut: cute.Tensor, vectors: Int32):
        """Eight columns."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        part, row, _ = cute.arch.block_idx()
        vector = part * c.threads + tid
        if vector < vectors:
            rGate = read_vector(mGateUp[row, None], vector)
            rUp = read_vector(mGateUp[row, None], vectors + vector)
            rOut = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
            for j in cutlass.range_constexpr(VECTOR_WIDTH):
                gate, up = rGate[j].to(Float32), rUp[j].to(Float32)
                rOut[j] = situ(gate, up, c.beta, c.linear_beta).to(BFloat16)
            write_vector(rOut, mOut[row, None], vector)


def _rows(pointer: cute.Pointer, stride: Int64) -> cute.Tensor:
    """Rows at a stride that is a multiple of one vector, as wide as the launch says."""
    layout = cute.make_layout((_MANY, _MANY), stride=(cute.assume(stride, divby=VECTOR_WIDTH), 1))
    return cute.make_tensor(pointer, layout)
