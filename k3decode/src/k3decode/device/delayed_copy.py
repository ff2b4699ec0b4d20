# mypy: ignore-errors
"""A copy that lets dependent launches start at once, then pauses, then copies.

It stands for a producer whose result comes late. Producers may run beside each other: one that
waits after its copy has ended only when those before it have, so that whoever waits for the last of
them waits for all. As a consumer it is launched early itself, with or without the wait that makes
that safe, so that a check for missing waits can be checked.
"""

from dataclasses import dataclass
from typing import Literal

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Int32, Int64, cute

__all__ = ["CopyConfig", "DelayedCopyKernel"]


@dataclass(frozen=True)
class CopyConfig:
    """One compiled variant."""

    dependent: bool
    """Launched before the kernel in front of it has finished."""
    waits: Literal["before", "after", "never"]
    """Whether it waits for that kernel before it reads, or only before it ends."""
    threads: int = 256
    """Of a CTA; many of them crowd other kernels out of an SM."""
    shared_bytes: int = 0
    """Shared memory that a CTA holds, for the same purpose."""


class DelayedCopyKernel:
    """Fixes at compile time how the copy stands to the kernel in front of it."""

    def __init__(self, config: CopyConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        source: cute.Pointer,
        target: cute.Pointer,
        size: Int64,
        cycles: Int64,
        ctas: Int32,
        stream: cuda.CUstream,
    ):
        """Copy `size` bytes with `ctas` CTAs, each after a pause of `cycles` of its clock."""
        self.kernel(
            cute.make_tensor(source, cute.make_layout(size)),
            cute.make_tensor(target, cute.make_layout(size)),
            size,
            cycles,
            ctas,
        ).launch(
            grid=[ctas, 1, 1],
            block=[self.config.threads, 1, 1],
            smem=self.config.shared_bytes,
            stream=stream,
            use_pdl=self.config.dependent,
        )

    @cute.kernel
    def kernel(
        self,
        mSource: cute.Tensor,
        mTarget: cute.Tensor,
        size: Int64,
        cycles: Int64,
        ctas: Int32,
    ):
        """All threads pause, then copy bytes in strides of the grid."""
        tid, _, _ = cute.arch.thread_idx()
        cta, _, _ = cute.arch.block_idx()
        cute.arch.griddepcontrol_launch_dependents()
        if cutlass.const_expr(self.config.waits == "before"):
            cute.arch.griddepcontrol_wait()
        start = cute.arch.clock64()
        while cute.arch.clock64() - start < cycles:
            pass
        at = Int64(cta * self.config.threads + tid)
        while at < size:
            mTarget[at] = mSource[at]
            at = at + Int64(ctas * self.config.threads)
        if cutlass.const_expr(self.config.waits == "after"):
            cute.arch.griddepcontrol_wait()
