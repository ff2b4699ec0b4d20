# mypy: ignore-errors
"""A kernel that only reads: the yardstick for kernels whose time is that of their bytes."""

from dataclasses import dataclass

import cuda.bindings.driver as cuda
import cutlass
from cutlass import Int32, Int64, Uint32, cute

__all__ = ["StreamReadConfig", "StreamReadKernel"]

_VECTOR_WORDS = 4
_VECTOR_BYTES = 16


@dataclass(frozen=True)
class StreamReadConfig:
    """One compiled variant."""

    threads: int = 512
    unroll: int = 8
    """Accesses of 16 bytes that a thread has in flight."""
    ctas_per_sm: int = 2


class StreamReadKernel:
    """Fixes the threads and the accesses in flight at compile time."""

    def __init__(self, config: StreamReadConfig) -> None:
        self.config = config

    @cute.jit
    def __call__(
        self,
        source: cute.Pointer,
        sink: cute.Pointer,
        size: Int64,
        ctas: Int32,
        stream: cuda.CUstream,
    ):
        """Read `size` bytes, a multiple of 16, with `ctas` CTAs."""
        self.kernel(source, cute.make_tensor(sink, cute.make_layout(1)), size).launch(
            grid=[ctas, 1, 1], block=[self.config.threads, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(self, source: cute.Pointer, mSink: cute.Tensor, size: Int64):
        """Each thread takes `unroll` accesses at a time, in strides of the grid."""
        c = self.config
        tid, _, _ = cute.arch.thread_idx()
        cta, _, _ = cute.arch.block_idx()
        ctas, _, _ = cute.arch.grid_dim()
        base = source.toint()
        seen = Uint32(0)
        step = Int64(c.threads * _VECTOR_BYTES)
        at = Int64(cta * c.unroll * c.threads + tid) * _VECTOR_BYTES
        while at < size:
            found = []
            for i in cutlass.range_constexpr(c.unroll):
                place = at + i * step
                # Past the end the first bytes of the last round are read again, from the cache.
                place = place if place < size else at
                found += cute.arch.inline_ptx(
                    "ld.global.nc.L1::no_allocate.v4.b32 {{$w0}, {$w1}, {$w2}, {$w3}}, [{$r0}];",
                    write_only_types=[Uint32] * _VECTOR_WORDS,
                    read_only_args=[base + place],
                )
            for word in found:
                seen = seen ^ word
            at = at + step * c.unroll * ctas
        # Never true of random bytes in practice; without a use the reads would vanish.
        if seen == Uint32(0x9E3779B9):
            mSink[0] = tid
