# mypy: ignore-errors
"""Requests that bring memory into the L2 cache and return nothing.

A prefetch reads nothing that the program can see, so it may come before a dependency wait whatever
it is about. Where a launch leaves the memory idle, it can bring weights that a later launch reads.
"""

import cutlass
from cutlass import Int32, Int64, cute

__all__ = ["LINE_BYTES", "prefetch_line", "prefetch_rows"]

LINE_BYTES = 128
"""What `prefetch_line` brings."""


@cute.jit
def prefetch_line(address: Int64) -> None:
    """Bring the line of the L2 cache that holds an address of global memory."""
    cute.arch.inline_ptx("prefetch.global.L2 [{$r0}];", read_only_args=[address])


@cute.jit
def prefetch_rows(
    address: Int64,
    pitch: Int64,
    rows: Int32,
    count: Int32,
    worker: Int32,
    workers: Int32,
) -> None:
    """Bring the first `count` bytes of rows, shared out among threads; all multiples of 16."""
    if count > 0:
        for row in cutlass.range(worker, rows, workers):
            cute.arch.inline_ptx(
                "cp.async.bulk.prefetch.L2.global [{$r0}], {$r1};",
                read_only_args=[address + row * pitch, count],
            )
