# mypy: ignore-errors
"""Copies of 16 bytes from global to shared memory that need no register and no waiting."""

from cutlass import Int32, Int64, cute

__all__ = ["COPY_BYTES", "request_copy"]

COPY_BYTES = 16
"""Bytes of one request."""


def request_copy(target: Int32, source: Int64, used: Int32, offset: tuple[int, int]) -> None:
    """Request one copy; it belongs to the next committed group.

    Args:
        target: shared address, a multiple of 16.
        source: global address, a multiple of 16.
        used: 16 copies; 0 writes zeros and does not read the source.
        offset: constants added to target and source, in bytes.
    """
    cute.arch.inline_ptx(
        f"cp.async.cg.shared.global.L2::128B [{{$r0}}+{offset[0]}], [{{$r1}}+{offset[1]}], "
        f"{COPY_BYTES}, {{$r2}};",
        read_only_args=[target, source, used],
    )
