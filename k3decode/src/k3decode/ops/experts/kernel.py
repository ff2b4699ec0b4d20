# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
"""Device code of the routed experts on Hopper: one kernel, one CTA for each SM.

Weights stream through rings of the warps. Between the halves of the work all CTAs meet; what the
second begins with is requested before. A CTA waits for the first half of others only when it has
done its own, and that all CTAs run at a time is what a cooperative launch promises.
"""

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Int32, Int64, Uint32, cute

from k3decode.device.slot_groups import clear_slots, group_slots
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.down import Down
from k3decode.ops.experts.gate_up import GateUp
from k3decode.ops.experts.stage import LANE_WORDS, Stage
from k3decode.ops.experts.team_share import team_share
from k3decode.ops.experts.weight_stream import WeightLine

__all__ = ["ExpertsKernel"]

_MANY = 1 << 20
_LARGEST = 0x7FFFFFFF


class ExpertsKernel:
    """Gate and up projection, activation, down projection, weighted sum."""

    def __init__(self, config: ExpertsConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        latent: cute.Pointer,
        experts: cute.Pointer,
        shares: cute.Pointer,
        gate_up: cute.Pointer,
        down: cute.Pointer,
        inner: cute.Pointer,
        arrived: cute.Pointer,
        out: cute.Pointer,
        latent_stride: Int64,
        out_stride: Int64,
        rows: Int32,
        ctas: Int32,
        stream: cuda.CUstream,
    ):
        """Launch `ctas` CTAs, no more than the GPU holds at a time.

        The stride of the latent rows is in words of two values, that of the outputs in elements.
        """
        c = self.config
        stride = cute.assume(latent_stride, divby=LANE_WORDS)
        words = cute.make_layout((_MANY, c.latent_size // 2), stride=(stride, 1))
        self.kernel(
            cute.make_tensor(cute.recast_ptr(latent, dtype=Uint32), words),
            cute.make_tensor(experts, cute.make_layout(c.max_slots)),
            cute.make_tensor(shares, cute.make_layout(c.max_slots)),
            gate_up,
            down,
            cute.make_tensor(
                inner, cute.make_layout((c.max_slots, c.inner_size), stride=(c.inner_size, 1))
            ),
            cute.make_tensor(arrived, cute.make_layout(1)),
            cute.make_tensor(out, cute.make_layout((_MANY, c.latent_size), stride=(out_stride, 1))),
            rows,
        ).launch(
            grid=[ctas, 1, 1],
            block=[c.threads, 1, 1],
            cooperative=True,
            use_pdl=True,
            stream=stream,
        )

    @cute.kernel
    def kernel(
        self,
        mLatent: cute.Tensor,
        mExperts: cute.Tensor,
        mShares: cute.Tensor,
        gate_up: cute.Pointer,
        down: cute.Pointer,
        mInner: cute.Tensor,
        mArrived: cute.Tensor,
        mOut: cute.Tensor,
        rows: Int32,
    ):
        """Both halves of one CTA's share."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        cta, _, _ = cute.arch.block_idx()
        ctas, _, _ = cute.arch.grid_dim()
        s = Stage(c)
        if tid == 0:
            for team in cutlass.range_constexpr(c.teams):
                cute.arch.mbarrier_init(s.barriers + team, c.team_warps)
        cute.arch.mbarrier_init_fence()
        clear_slots(s.groups, rows)
        cute.arch.griddepcontrol_wait()
        cute.arch.griddepcontrol_launch_dependents()
        if cutlass.const_expr(c.stages_tokens):
            s.tokens.bring(mLatent, rows)
        chosen = group_slots(s.groups, mExperts, mShares, rows)
        team, teams = cta * c.teams + s.warp // c.team_warps, ctas * c.teams
        share = team_share(s, chosen, rows, teams, team)
        line = WeightLine(c, s, gate_up, down, share, cta, ctas, chosen)
        line.fill()
        slot = GateUp(c, s, line, mLatent, mInner).run(*share)
        self._meet(mArrived, cta, ctas)
        Down(c, s, line, mInner, mOut, rows=rows, chosen=chosen).run(cta, ctas, slot)
        cute.arch.cp_async_wait_group(0)

    @cute.jit
    def _meet(self, mArrived: cute.Tensor, cta: Int32, ctas: Int32):
        """Wait until every CTA is here; what they wrote before is visible then.

        A CTA without a share of the second half does not wait. The arrivals of a launch change the
        counter's highest bit and nothing else, so it is ready for the next launch.
        """
        tid, _, _ = cute.arch.thread_idx()
        cute.arch.sync_threads()
        if tid == 0:
            counter = mArrived.iterator
            step = Int32(_LARGEST) - ctas + 2 if cta == 0 else Int32(1)
            found = cute.arch.atomic_add(counter, step, sem="release", scope="gpu")
            seen = found if cta < self.config.down_tiles else ~found
            while (seen ^ found) >= 0:
                seen = cute.arch.load(counter, Int32, sem="acquire", scope="gpu")
        cute.arch.sync_threads()
