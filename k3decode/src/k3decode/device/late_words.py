# mypy: ignore-errors
"""Words of other ranks that come late: one CTA for each rank, each after a pause of its own."""

from dataclasses import dataclass

import cuda.bindings.driver as cuda
from cutlass import Int32, cute

__all__ = ["LateWordsConfig", "LateWordsKernel"]


@dataclass(frozen=True)
class LateWordsConfig:
    """The one compiled variant."""

    threads: int = 512
    """Of a CTA."""


class LateWordsKernel:
    """Fixes the threads at compile time."""

    def __init__(self, config: LateWordsConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        source: cute.Pointer,
        owners: cute.Pointer,
        target: cute.Pointer,
        pauses: cute.Pointer,
        words: Int32,
        ranks: Int32,
        stream: cuda.CUstream,
    ):
        """Launch; CTA r copies the words whose owner is r after `pauses[r]` cycles of its clock."""
        flat = cute.make_layout(words)
        self.kernel(
            cute.make_tensor(source, flat),
            cute.make_tensor(owners, flat),
            cute.make_tensor(target, flat),
            cute.make_tensor(pauses, cute.make_layout(ranks)),
            words,
        ).launch(grid=[ranks, 1, 1], block=[self.config.threads, 1, 1], stream=stream)

    @cute.kernel
    def kernel(
        self,
        mSource: cute.Tensor,
        mOwners: cute.Tensor,
        mTarget: cute.Tensor,
        mPauses: cute.Tensor,
        words: Int32,
    ):
        """One rank."""
        tid, _, _ = cute.arch.thread_idx()
        rank, _, _ = cute.arch.block_idx()
        start, pause = cute.arch.clock64(), mPauses[rank]
        while cute.arch.clock64() - start < pause:
            pass
        at = tid
        while at < words:
            if mOwners[at] == rank:
                mTarget[at] = mSource[at]
            at = at + self.config.threads
