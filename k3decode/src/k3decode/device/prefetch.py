# mypy: ignore-errors
"""Requests that bring memory into the L2 cache and return nothing.

A prefetch reads nothing that the program can see, so it may come before a dependency wait.
"""

from cutlass import Int32, Int64, cute

__all__ = ["LINE_BYTES", "prefetch_line", "prefetch_span", "read_for_prefetch"]

LINE_BYTES = 128
"""What `prefetch_line` brings."""


@cute.jit
def prefetch_line(address: Int64) -> None:
    """Bring the line of the L2 cache that holds an address of global memory."""
    cute.arch.inline_ptx("prefetch.global.L2 [{$r0}];", read_only_args=[address])


@cute.jit
def prefetch_span(address: Int64, size: int) -> None:
    """Bring so many bytes of global memory, a multiple of 16 as their address; one thread asks."""
    cute.arch.inline_ptx(
        "cp.async.bulk.prefetch.L2.global [{$r0}], {$r1};", read_only_args=[address, Int32(size)]
    )


@cute.jit
def read_for_prefetch(address: Int64) -> Int32:
    """A number that only chooses what to prefetch, past the L1 cache, which would keep it."""
    return cute.arch.inline_ptx(
        "ld.global.cg.s32 {$w0}, [{$r0}];",
        write_only_types=[Int32],
        read_only_args=[address],
    )
