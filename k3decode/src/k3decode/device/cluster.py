# mypy: ignore-errors
"""Shared memory of the other CTAs of a cluster."""

from cutlass import Float32, Int32, cute

__all__ = ["store_to_peer"]


def store_to_peer(address: Int32, rank: Int32, value: Float32) -> None:
    """Write to the place of a peer's shared memory that `address` is in this CTA's.

    The peer must have started, and must not end before a barrier of the cluster that follows.
    """
    cute.arch.inline_ptx(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, {$r0}, {$r1}; "
        "st.shared::cluster.f32 [there], {$r2}; }",
        read_only_args=[address, rank, value],
    )
