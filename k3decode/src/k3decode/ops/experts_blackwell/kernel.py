# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the routed experts for Blackwell: products of 128 weight rows with 16 tokens.

The first kernel computes SiTU of gate and up of every chosen slot, the second the weighted outputs
of every slot, the third adds a row's in the order of its choices. In the first two a CTA walks over
tiles of 128 rows of the chosen experts. One warp brings chunks of packed weights by bulk copies,
two bring the tokens' columns, and two groups of four warps take turns with chunks: a thread
de-quantises a row exactly to BF16 and puts it into its lane of tensor memory, from where the matrix
unit takes it. Sums of two tiles are in tensor memory; the groups take turns with them as well.
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.utils.blackwell_helpers as blackwell
from cutlass import BFloat16, Float32, Int32, Int64, cute
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.memory import SmemAllocator

from k3decode.device.row_io import WARP_SIZE
from k3decode.device.slot_groups import SlotGroups, clear_slots, group_slots
from k3decode.device.tensor_memory import after_barrier, before_barrier
from k3decode.mxfp4_blocks import ROW_CHUNK_BYTES, ROW_CHUNK_ROWS
from k3decode.ops.experts_blackwell.config import (
    CHUNK_COLUMNS,
    TILE_TOKENS,
    ExpertsBlackwellConfig,
)
from k3decode.ops.experts_blackwell.pipeline import Bars, start_barriers
from k3decode.ops.experts_blackwell.roles import Roles, Shared

__all__ = ["DownTilesKernel", "GateUpTilesKernel", "SlotSumKernel"]

_MANY = 1 << 20
_COPY_WARP, _PRODUCT_WARP, _ASK_WARP, _GROUP_WARP = 0, 1, 2, 4
_SUM_THREADS = 128
_SUM_COLUMNS = 4


class _TilesKernel:
    """What both halves share; a subclass says whose tiles, and what becomes of the sums."""

    is_down: bool

    def __init__(self, config: ExpertsBlackwellConfig) -> None:
        self.config = config

    def _launch(self, source, experts, shares, weights, target, source_bytes, rows, ctas, stream):
        c = self.config
        product = blackwell.make_trivial_tiled_mma(
            BFloat16,
            BFloat16,
            OperandMajorMode.K,
            OperandMajorMode.K,
            Float32,
            tcgen05.CtaGroup.ONE,
            (ROW_CHUNK_ROWS, TILE_TOKENS),
            tcgen05.OperandSource.TMEM,
        )
        width = c.latent_size if self.is_down else c.inner_size
        self.kernel(
            product,
            source.toint(),
            cute.make_tensor(experts, cute.make_layout(c.max_slots)),
            cute.make_tensor(shares, cute.make_layout(c.max_slots)),
            weights.toint(),
            cute.make_tensor(target, cute.make_layout((c.max_slots, width), stride=(width, 1))),
            source_bytes,
            rows,
        ).launch(grid=[ctas, 1, 1], block=[c.threads, 1, 1], stream=stream, use_pdl=True)

    @cute.kernel
    def kernel(
        self,
        product: cute.TiledMma,
        source: Int64,
        mExperts: cute.Tensor,
        mShares: cute.Tensor,
        weights: Int64,
        mTarget: cute.Tensor,
        source_bytes: Int64,
        rows: Int32,
    ):
        """Every warp in its role."""
        c = self.config
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        smem = SmemAllocator()
        atom = tcgen05.make_smem_layout_atom(tcgen05.SmemLayoutAtomKind.K_SW128, BFloat16)
        shape = cute.append(product.partition_shape_B((TILE_TOKENS, CHUNK_COLUMNS)), c.stages)
        layout = tcgen05.tile_to_mma_shape(atom, shape, order=(1, 2, 3))
        sTokens = smem.allocate_tensor(BFloat16, layout.outer, 1024, layout.inner)
        shared = Shared(
            weights=Int32(smem.allocate(c.stages * ROW_CHUNK_BYTES, 128).toint()),
            tokens=Int32(sTokens.iterator.toint()),
            sUp=smem.allocate_tensor(
                Float32,
                cute.make_layout((ROW_CHUNK_ROWS // 2, TILE_TOKENS, c.groups)),
                16,
            ),
            bars=Bars(smem.allocate_array(Int64, Bars.count(c), byte_alignment=16), c),
            groups=SlotGroups(
                smem,
                smem.allocate(12 * c.num_experts, 16),
                num_experts=c.num_experts,
                top_k=c.top_k,
                max_slots=c.max_slots,
                threads=c.threads,
            ),
        )
        clear_slots(shared.groups, rows)
        sMemory = smem.allocate_tensor(Int32, cute.make_layout(1), 16)
        if warp == _PRODUCT_WARP:
            cute.arch.alloc_tmem(c.tensor_memory_columns, sMemory.iterator)
            cute.arch.relinquish_tmem_alloc_permit()
            start_barriers(c, shared.bars)
        before_barrier()
        cute.arch.sync_threads()
        after_barrier()
        if cutlass.const_expr(not self.is_down):
            cute.arch.griddepcontrol_wait()
        cute.arch.griddepcontrol_launch_dependents()
        # The second kernel starts when the first has waited for the router: ids are final.
        chosen = group_slots(shared.groups, mExperts, mShares, rows)
        roles = Roles(c, shared, is_down=self.is_down, chosen=chosen)
        memory = cute.arch.retrieve_tmem_ptr(Float32, 16, sMemory.iterator)
        if warp == _COPY_WARP:
            Roles.bring_weights(roles, weights)
        elif warp == _PRODUCT_WARP:
            Roles.multiply(roles, product, sTokens, memory)
        elif warp < _GROUP_WARP:
            if cutlass.const_expr(self.is_down):
                cute.arch.griddepcontrol_wait()
            Roles.bring_tokens(roles, source, source_bytes, _ASK_WARP * WARP_SIZE)
        else:
            if cutlass.const_expr(self.is_down):
                cute.arch.griddepcontrol_wait()
            Roles.dequantise(roles, sMemory[0], mTarget, _GROUP_WARP)
        before_barrier()
        cute.arch.sync_threads()
        if warp == _PRODUCT_WARP:
            after_barrier()
            cute.arch.dealloc_tmem(memory, c.tensor_memory_columns)


class GateUpTilesKernel(_TilesKernel):
    """Gate and up projection with the activation."""

    is_down = False

    @cute.jit
    def __call__(
        self,
        latent: cute.Pointer,
        experts: cute.Pointer,
        shares: cute.Pointer,
        weights: cute.Pointer,
        inner: cute.Pointer,
        latent_bytes: Int64,
        rows: Int32,
        ctas: Int32,
        stream: cuda.CUstream,
    ):
        """Launch; `latent_bytes` are between rows of latents."""
        self._launch(latent, experts, shares, weights, inner, latent_bytes, rows, ctas, stream)


class DownTilesKernel(_TilesKernel):
    """Down projection, weighted, of every slot."""

    is_down = True

    @cute.jit
    def __call__(
        self,
        inner: cute.Pointer,
        experts: cute.Pointer,
        shares: cute.Pointer,
        weights: cute.Pointer,
        outputs: cute.Pointer,
        inner_bytes: Int64,
        rows: Int32,
        ctas: Int32,
        stream: cuda.CUstream,
    ):
        """Launch; `inner_bytes` are between inner rows."""
        self._launch(inner, experts, shares, weights, outputs, inner_bytes, rows, ctas, stream)


class SlotSumKernel:
    """Sum of a row's outputs in the order of its choices."""

    def __init__(self, config: ExpertsBlackwellConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        outputs: cute.Pointer,
        experts: cute.Pointer,
        out: cute.Pointer,
        out_stride: Int64,
        rows: Int32,
        stream: cuda.CUstream,
    ):
        """Launch; the stride is in elements."""
        c = self.config
        width = c.latent_size
        self.kernel(
            cute.make_tensor(outputs, cute.make_layout((c.max_slots, width), stride=(width, 1))),
            cute.make_tensor(experts, cute.make_layout(c.max_slots)),
            cute.make_tensor(out, cute.make_layout((_MANY, width), stride=(out_stride, 1))),
        ).launch(
            grid=[cute.ceil_div(width, _SUM_THREADS * _SUM_COLUMNS), rows, 1],
            block=[_SUM_THREADS, 1, 1],
            stream=stream,
            use_pdl=True,
        )

    @cute.kernel
    def kernel(self, mOutputs: cute.Tensor, mExperts: cute.Tensor, mOut: cute.Tensor):
        """Four columns of a row for each thread."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        block, row, _ = cute.arch.block_idx()
        first = (block * _SUM_THREADS + tid) * _SUM_COLUMNS
        cute.arch.griddepcontrol_launch_dependents()
        cute.arch.griddepcontrol_wait()
        if first < c.latent_size:
            totals = cute.make_rmem_tensor((_SUM_COLUMNS,), Float32)
            totals.fill(0.0)
            for j in cutlass.range_constexpr(c.top_k):
                slot = row * c.top_k + j
                expert = mExperts[slot]
                if expert >= 0 and expert < c.num_experts:
                    for i in cutlass.range_constexpr(_SUM_COLUMNS):
                        totals[i] = totals[i] + mOutputs[slot, first + i]
            for i in cutlass.range_constexpr(_SUM_COLUMNS):
                mOut[row, first + i] = totals[i].to(BFloat16)
