# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the exchange before the latent norm: one CTA per row, eight columns per thread.

Each thread sends what this rank has of its columns to all others, waits for theirs, and sums them
in the order of ranks. The sum is not rounded before it is normalised.
"""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.mailbox_words import VECTOR_BYTES
from k3decode.device.rank_rows import RankRows, sum_words
from k3decode.device.row_io import VECTOR_WIDTH, read_vector, row_tensor
from k3decode.ops.exchange_latent_norm.config import ExchangeLatentNormConfig
from k3decode.ops.latent_norm.kernel import LatentNormKernel

__all__ = ["ExchangeLatentNormKernel"]


class ExchangeLatentNormKernel(LatentNormKernel):
    """Fixes the width, the added constant and the number of ranks at compile time."""

    def __init__(self, config: ExchangeLatentNormConfig) -> None:
        super().__init__(config)

    @cute.jit
    def __call__(
        self,
        own: cute.Pointer,
        weight: cute.Pointer,
        out: cute.Pointer,
        words: cute.Pointer,
        peers: cute.Pointer,
        error: cute.Pointer,
        out_stride: Int64,
        own_row_bytes: Int64,
        slot_bytes: Int64,
        row_bytes: Int64,
        code: Int64,
        deadline: Int64,
        rank: Int32,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` rows; the stride of the output in elements, others in bytes."""
        c = self.config
        self.kernel(
            own,
            cute.make_tensor(weight, cute.make_layout(c.width)),
            row_tensor(out, c.width, out_stride),
            words,
            cute.make_tensor(peers, cute.make_layout(c.ranks)),
            error,
            own_row_bytes,
            slot_bytes,
            row_bytes,
            code,
            deadline,
            rank,
        ).launch(grid=[rows, 1, 1], block=[c.threads, 1, 1], stream=stream, use_pdl=True)

    @cute.kernel
    def kernel(
        self,
        own: cute.Pointer,
        mWeight: cute.Tensor,
        mOut: cute.Tensor,
        words: cute.Pointer,
        mPeers: cute.Tensor,
        error: cute.Pointer,
        own_row_bytes: Int64,
        slot_bytes: Int64,
        row_bytes: Int64,
        code: Int64,
        deadline: Int64,
        rank: Int32,
    ):
        """One row."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        row, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        sSquares = smem.allocate_tensor(Float32, cute.make_layout(c.warps), 16)
        weight = read_vector(mWeight, tid).load().to(Float32)
        peers = [mPeers[r] for r in range(c.ranks)]
        cute.arch.griddepcontrol_launch_dependents()
        # Weights and addresses never change; this rank's sum may still be written in front.
        cute.arch.griddepcontrol_wait()
        inside = Int64(row) * row_bytes + tid * VECTOR_BYTES
        mine = own.toint() + Int64(row) * own_row_bytes + tid * VECTOR_BYTES
        rows = RankRows(words.toint(), peers, rank, error.toint(), code + row, deadline)
        totals = sum_words(rows, mine, inside, slot_bytes)
        rTotal = cute.make_rmem_tensor((VECTOR_WIDTH,), Float32)
        for i in cutlass.range_constexpr(VECTOR_WIDTH):
            rTotal[i] = totals[i]
        self._normalise(rTotal.load(), weight, sSquares, mOut[row, None])
