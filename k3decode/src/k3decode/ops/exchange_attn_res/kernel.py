# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the exchange before AttnRes: one cluster per row, as for AttnRes alone.

Each thread has eight columns. It sends what this rank has of them to all others, waits for what
they have sent, and frees its places in the mailbox. Residual blocks, which no peer brings, are
requested before. Sums are taken in the order of ranks, so that all ranks get the same bits.
"""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute

from k3decode.device.mailbox_words import VECTOR_BYTES, WORDS, pack_words
from k3decode.device.rank_rows import RankRows, gather_words, sum_words
from k3decode.device.row_io import read_vector, row_tensor
from k3decode.ops.attn_res.config import VECTOR_WIDTH
from k3decode.ops.attn_res.kernel import AttnResKernel
from k3decode.ops.exchange_attn_res.config import ExchangeAttnResConfig

__all__ = ["ExchangeAttnResKernel"]


class ExchangeAttnResKernel(AttnResKernel):
    """Fixes at compile time how many ranks there are, which sources, and what is written back."""

    def __init__(self, config: ExchangeAttnResConfig) -> None:
        super().__init__(config)

    @cute.jit
    def __call__(
        self,
        prefix: cute.Pointer,
        own: cute.Pointer,
        blocks: cute.Pointer,
        direction: cute.Pointer,
        output_norm: cute.Pointer,
        out: cute.Pointer,
        words: cute.Pointer,
        peers: cute.Pointer,
        error: cute.Pointer,
        prefix_stride: Int64,
        block_row_stride: Int64,
        block_stride: Int64,
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
        """Launch over `rows` rows; strides of AttnRes in elements, of the exchange in bytes."""
        c = self.config
        width = c.hidden_size
        self.kernel(
            row_tensor(prefix, width, prefix_stride),
            own,
            cute.make_tensor(
                blocks,
                cute.make_layout(
                    (1 << 20, 1 << 8, width),
                    stride=(
                        cute.assume(block_row_stride, divby=VECTOR_WIDTH),
                        cute.assume(block_stride, divby=VECTOR_WIDTH),
                        1,
                    ),
                ),
            ),
            cute.make_tensor(direction, cute.make_layout(width)),
            cute.make_tensor(output_norm, cute.make_layout(width)),
            row_tensor(out, width, out_stride),
            words,
            cute.make_tensor(peers, cute.make_layout(c.ranks)),
            error,
            own_row_bytes,
            slot_bytes,
            row_bytes,
            code,
            deadline,
            rank,
        ).launch(
            grid=[c.ctas, rows, 1],
            block=[c.threads, 1, 1],
            cluster=[c.ctas, 1, 1],
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(
        self,
        mPrefix: cute.Tensor,
        own: cute.Pointer,
        mBlocks: cute.Tensor,
        mDirection: cute.Tensor,
        mOutputNorm: cute.Tensor,
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
        """One part of one row."""
        config = self.config
        part, row, _ = cute.arch.block_idx()
        memory, vector, rDirection, rNorm = self._begin(mDirection, mOutputNorm, part)
        peers = [mPeers[r] for r in range(config.ranks)]
        cute.arch.griddepcontrol_launch_dependents()
        # Weights and addresses never change; everything else may still be written in front.
        cute.arch.griddepcontrol_wait()
        rSources = [read_vector(mBlocks[row, s, None], vector) for s in range(config.blocks)]
        rPrefix = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
        if cutlass.const_expr(not config.reset):
            rPrefix = read_vector(mPrefix[row, None], vector)
        own_row = own.toint() + Int64(row) * own_row_bytes
        inside = Int64(row) * row_bytes + vector * VECTOR_BYTES
        rows = RankRows(words.toint(), peers, rank, error.toint(), code + row, deadline)
        if cutlass.const_expr(config.gathers):
            owner = vector // config.share_vectors
            at = vector - rank * config.share_vectors
            found = gather_words(rows, own_row + at * VECTOR_BYTES, inside, owner)
        else:
            at = own_row + vector * VECTOR_BYTES
            found = pack_words(sum_words(rows, at, inside, slot_bytes))
        rPending = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
        rWords = cute.recast_tensor(rPending, Int32)
        for i in cutlass.range_constexpr(WORDS):
            rWords[i] = found[i]
        if cutlass.const_expr(config.reset):
            rPrefix = rPending
        else:
            total = rPrefix.load().to(Float32) + rPending.load().to(Float32)
            rPrefix.store(total.to(BFloat16))
        self._keep(rPrefix, mPrefix, mBlocks, row, vector)
        rSources.append(rPrefix)
        self._mix(rSources, rDirection, rNorm, memory, mOut, row, part)
