# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the exchange in front of the experts: some CTAs per row.

The first gathers the logits of all ranks and chooses experts, as `router` does. The others gather
what the ranks have of the latent row and of the shared expert's activation. Each thread sends what
this rank owns to all others, and waits for what another rank owns.
"""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.memory import SmemAllocator

from k3decode.device.mailbox_words import VECTOR_BYTES
from k3decode.device.rank_rows import RankRows, gather_words
from k3decode.ops.exchange_route.config import VECTOR_WIDTH, ExchangeRouteConfig
from k3decode.ops.router.kernel import RouterKernel, ordered, sigmoid

__all__ = ["ExchangeRouteKernel"]

_MANY_ROWS = 1 << 20
_WORD_BYTES = 4


class ExchangeRouteKernel(RouterKernel):
    """Fixes experts, choices, ranks and widths at compile time."""

    def __init__(self, config: ExchangeRouteConfig) -> None:
        super().__init__(config)

    @cute.jit
    def __call__(
        self,
        own_logits: cute.Pointer,
        own_row: cute.Pointer,
        bias: cute.Pointer,
        logits: cute.Pointer,
        experts: cute.Pointer,
        weights: cute.Pointer,
        out: cute.Pointer,
        words: cute.Pointer,
        peers: cute.Pointer,
        error: cute.Pointer,
        logits_stride: Int64,
        own_logits_bytes: Int64,
        own_row_bytes: Int64,
        out_row_bytes: Int64,
        row_bytes: Int64,
        code: Int64,
        deadline: Int64,
        rank: Int32,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch over `rows` rows; the stride of gathered logits in elements, others in bytes."""
        c = self.config
        chosen = cute.make_layout(
            (_MANY_ROWS, c.experts_per_token), stride=(c.experts_per_token, 1)
        )
        self.kernel(
            own_logits,
            own_row,
            cute.make_tensor(bias, cute.make_layout(c.num_experts)),
            cute.make_tensor(
                logits,
                cute.make_layout((_MANY_ROWS, c.num_experts), stride=(logits_stride, 1)),
            ),
            cute.make_tensor(experts, chosen),
            cute.make_tensor(weights, chosen),
            out,
            words,
            cute.make_tensor(peers, cute.make_layout(c.ranks)),
            error,
            own_logits_bytes,
            own_row_bytes,
            out_row_bytes,
            row_bytes,
            code,
            deadline,
            rank,
        ).launch(grid=[c.ctas, rows, 1], block=[c.threads, 1, 1], stream=stream, use_pdl=True)

    @cute.kernel
    def kernel(
        self,
        own_logits: cute.Pointer,
        own_row: cute.Pointer,
        mBias: cute.Tensor,
        mLogits: cute.Tensor,
        mExperts: cute.Tensor,
        mWeights: cute.Tensor,
        out: cute.Pointer,
        words: cute.Pointer,
        mPeers: cute.Tensor,
        error: cute.Pointer,
        own_logits_bytes: Int64,
        own_row_bytes: Int64,
        out_row_bytes: Int64,
        row_bytes: Int64,
        code: Int64,
        deadline: Int64,
        rank: Int32,
    ):
        """One part of one row."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        part, row, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        memory = self._memory(smem)
        sLogits = smem.allocate_tensor(Float32, cute.make_layout(c.num_experts), 16)
        first = tid * c.experts_per_lane
        bias = [mBias[first + j] for j in range(c.experts_per_lane)]
        peers = [mPeers[r] for r in range(c.ranks)]
        cute.arch.griddepcontrol_launch_dependents()
        # Bias and addresses never change; what this rank brings may still be written in front.
        cute.arch.griddepcontrol_wait()
        inside = Int64(row) * row_bytes
        rows = RankRows(words.toint(), peers, rank, error.toint(), code + row, deadline)
        if part == 0:
            owner = first // c.logit_share
            mine = own_logits.toint() + Int64(row) * own_logits_bytes
            mine = mine + (first - rank * c.logit_share) * _WORD_BYTES
            w0, w1, w2, w3 = gather_words(rows, mine, inside + tid * VECTOR_BYTES, owner)
            logits = [w.bitcast(Float32) for w in (w0, w1, w2, w3)]
            for j in cutlass.range_constexpr(c.experts_per_lane):
                mLogits[row, first + j] = logits[j]
                sLogits[first + j] = logits[j]
            keys = [ordered(sigmoid(logits[j]) + bias[j]) for j in range(c.experts_per_lane)]
            self._select(keys, first, memory, sLogits, mExperts, mWeights, row)
        else:
            vector = (part - 1) * c.threads + tid
            if vector < c.vectors:
                owner, own_vector = self._owned(vector)
                mine = own_row.toint() + Int64(row) * own_row_bytes + own_vector * VECTOR_BYTES
                inside = inside + c.num_experts * _WORD_BYTES + vector * VECTOR_BYTES
                w0, w1, w2, w3 = gather_words(rows, mine, inside, owner)
                target = out.toint() + Int64(row) * out_row_bytes + vector * VECTOR_BYTES
                cute.arch.inline_ptx(
                    "st.global.v4.b32 [{$r0}], {{$r1}, {$r2}, {$r3}, {$r4}};",
                    read_only_args=[target, w0, w1, w2, w3],
                )

    @cute.jit
    def _owned(self, vector: Int32):
        """Which rank brings a vector of the gathered row, and which of that rank's it is."""
        c = self.config
        owner, own_vector = Int32(0), Int32(0)
        begin, own_begin = 0, 0
        for width in c.parts:
            share = width // (VECTOR_WIDTH * c.ranks)
            if vector >= begin:
                owner = (vector - begin) // share
                own_vector = own_begin + (vector - begin) % share
            begin, own_begin = begin + share * c.ranks, own_begin + share
        return owner, own_vector
