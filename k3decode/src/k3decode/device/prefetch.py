# mypy: ignore-errors
"""Requests that bring memory into the L2 cache and return nothing.

A prefetch reads nothing that the program can see, so it may come before a dependency wait.
"""

from cutlass import Int64, cute

__all__ = ["LINE_BYTES", "prefetch_line"]

LINE_BYTES = 128
"""What `prefetch_line` brings."""


@cute.jit
def prefetch_line(address: Int64) -> None:
    """Bring the line of the L2 cache that holds an address of global memory."""
    cute.arch.inline_ptx("prefetch.global.L2 [{$r0}];", read_only_args=[address])
