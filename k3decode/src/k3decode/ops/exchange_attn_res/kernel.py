# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the exchange before AttnRes: one cluster per row, as for AttnRes alone.

Each thread has eight columns. It sends what this rank has of them to all others, waits for what
they have sent, and frees its places in the mailbox. No other thread reads them. Sums are taken in
the order of ranks, so that all ranks get the same bits.
"""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.mailbox_words import (
    WORDS,
    floats_of,
    load_words,
    own_words,
    pack_words,
    send_words,
    settled,
)
from k3decode.device.row_io import WARP_SIZE, read_vector, row_tensor, write_vector
from k3decode.ops.attn_res.config import VECTOR_WIDTH
from k3decode.ops.attn_res.kernel import AttnResKernel
from k3decode.ops.exchange_attn_res.config import ExchangeAttnResConfig

__all__ = ["ExchangeAttnResKernel"]

_VECTOR_BYTES = 16
_SLOT_BITS = 16


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
        tid, _, _ = cute.arch.thread_idx()
        part, row, _ = cute.arch.block_idx()
        warps = config.threads // WARP_SIZE
        sources = config.sources
        # Peers must have started before anything is stored into their shared memory.
        cute.arch.cluster_arrive_relaxed()
        smem = SmemAllocator()
        sSums = smem.allocate_tensor(Float32, cute.make_layout((2 * sources, warps)), 16)
        sParts = smem.allocate_tensor(Float32, cute.make_layout((2 * sources, config.ctas)), 16)
        sSquares = smem.allocate_tensor(Float32, cute.make_layout(config.ctas * warps), 16)
        vector = part * config.threads + tid
        # Weights and addresses never change; everything else may still be written in front.
        rDirection = read_vector(mDirection, vector)
        rNorm = rDirection
        if cutlass.const_expr(config.output_norm):
            rNorm = read_vector(mOutputNorm, vector)
        peers = [mPeers[r] for r in range(config.ranks)]
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
        own_row = own.toint() + Int64(row) * own_row_bytes
        inside = Int64(row) * row_bytes + vector * _VECTOR_BYTES
        waiting = (error.toint(), code + row, deadline)
        if cutlass.const_expr(config.gathers):
            found = self._gathered(own_row, words.toint(), inside, peers, rank, vector, waiting)
        else:
            mine = own_words(own_row + vector * _VECTOR_BYTES)
            found = self._summed(mine, words.toint(), inside, peers, rank, slot_bytes, waiting)
        rPending = cute.make_rmem_tensor((VECTOR_WIDTH,), BFloat16)
        rWords = cute.recast_tensor(rPending, Int32)
        for i in cutlass.range_constexpr(WORDS):
            rWords[i] = found[i]

        rSources = [read_vector(mBlocks[row, s, None], vector) for s in range(config.blocks)]
        if cutlass.const_expr(config.reset):
            rPrefix = rPending
        else:
            rPrefix = read_vector(mPrefix[row, None], vector)
            total = rPrefix.load().to(Float32) + rPending.load().to(Float32)
            rPrefix.store(total.to(BFloat16))
        write_vector(rPrefix, mPrefix[row, None], vector)
        if cutlass.const_expr(config.write_block is not None):
            write_vector(rPrefix, mBlocks[row, config.write_block, None], vector)
        rSources.append(rPrefix)
        self._mix(rSources, rDirection, rNorm, (sSums, sParts, sSquares), mOut, row, part)

    @cute.jit
    def _summed(
        self,
        mine: list,
        place: Int64,
        inside: Int64,
        peers: list,
        rank: Int32,
        slot_bytes: Int64,
        waiting: tuple,
    ):
        """Words of the sum over all ranks, of which this one has `mine`."""
        config = self.config
        error, code, deadline = waiting
        for r in cutlass.range_constexpr(config.ranks):
            if r != rank:
                send_words(peers[r] + rank * slot_bytes + inside, mine)
        places = [place + r * slot_bytes + inside for r in range(config.ranks)]
        arrived = [load_words(places[r]) for r in range(config.ranks)]
        totals = [Float32(0.0)] * VECTOR_WIDTH
        for r in cutlass.range_constexpr(config.ranks):
            wanted = Int32(1) if r != rank else Int32(0)
            name = code + (r << _SLOT_BITS)
            there = settled(arrived[r], places[r], wanted, error, name, deadline)
            taken = [there[i] if r != rank else mine[i] for i in range(WORDS)]
            values = floats_of(taken)
            totals = [totals[i] + values[i] for i in range(VECTOR_WIDTH)]
        return pack_words(totals)

    @cute.jit
    def _gathered(
        self,
        own_row: Int64,
        place: Int64,
        inside: Int64,
        peers: list,
        rank: Int32,
        vector: Int32,
        waiting: tuple,
    ):
        """Words of the rank that owns the vector."""
        config = self.config
        error, code, deadline = waiting
        owner = vector // config.share_vectors
        w0, w1, w2, w3 = Int32(0), Int32(0), Int32(0), Int32(0)
        if owner == rank:
            at = vector - rank * config.share_vectors
            w0, w1, w2, w3 = own_words(own_row + at * _VECTOR_BYTES)
            for r in cutlass.range_constexpr(config.ranks):
                if r != rank:
                    send_words(peers[r] + inside, [w0, w1, w2, w3])
        else:
            arrived = load_words(place + inside)
            name = code + (Int64(owner) << _SLOT_BITS)
            w0, w1, w2, w3 = settled(arrived, place + inside, Int32(1), error, name, deadline)
        return [w0, w1, w2, w3]
