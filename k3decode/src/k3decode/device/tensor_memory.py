# mypy: ignore-errors
"""Blackwell's tensor memory: 128 lanes of 512 columns of 32 bits; a warp reaches 32 lanes.

Lanes 32 w to 32 w + 31 belong to warp w of its four, a lane of memory to a lane of the warp. An
address has the lane in its upper half and the column in its lower one.
"""

import cutlass
from cutlass import Float32, Int32, cute

from k3decode.device.row_io import WARP_SIZE

__all__ = [
    "LOADED_COLUMNS",
    "after_barrier",
    "before_barrier",
    "fold_columns",
    "lanes_of_warp",
    "load_columns",
    "store_columns",
]

LOADED_COLUMNS = 16
"""Columns of one access."""

_FOLD_LEVELS = 4
_LIST = ", ".join(f"{{$w{i}}}" for i in range(LOADED_COLUMNS))
_STORED = ", ".join(f"{{$r{i + 1}}}" for i in range(LOADED_COLUMNS))


def lanes_of_warp(base: Int32, warp: Int32) -> Int32:
    """Address of the first lane and column that a warp reaches; `warp` is that of its four."""
    return base + warp * (WARP_SIZE << 16)


def load_columns(address: Int32) -> list:
    """Read 16 columns of this lane, as FP32, and wait for them."""
    return list(
        cute.arch.inline_ptx(
            f"tcgen05.ld.sync.aligned.32x32b.x{LOADED_COLUMNS}.b32 {{{_LIST}}}, [{{$r0}}]; "
            "tcgen05.wait::ld.sync.aligned;",
            write_only_types=[Float32] * LOADED_COLUMNS,
            read_only_args=[address],
        )
    )


def store_columns(address: Int32, values: list) -> None:
    """Write 16 columns of this lane; `before_barrier` waits until they are there."""
    cute.arch.inline_ptx(
        f"tcgen05.st.sync.aligned.32x32b.x{LOADED_COLUMNS}.b32 [{{$r0}}], {{{_STORED}}};",
        read_only_args=[address, *values],
    )


def before_barrier() -> None:
    """Finish this thread's accesses, so that a barrier passes them on."""
    cute.arch.inline_ptx(
        "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;",
    )


def after_barrier() -> None:
    """Let accesses and products that follow see what a barrier passed on."""
    cute.arch.inline_ptx("tcgen05.fence::after_thread_sync;")


@cute.jit
def fold_columns(values: list, combine):
    """One value per column over all lanes of the warp: lane l gets that of column l % 16.

    Args:
        values: this lane's 16 columns.
        combine: of two values, without an order, such as a maximum.
    """
    lane = cute.arch.lane_idx()
    for level in cutlass.range_constexpr(_FOLD_LEVELS):
        step = LOADED_COLUMNS >> (level + 1)
        upper = lane % (2 * step) >= step
        folded = []
        for i in cutlass.range_constexpr(step):
            kept = values[i + step] if upper else values[i]
            sent = values[i] if upper else values[i + step]
            folded.append(combine(kept, cute.arch.shuffle_sync_bfly(sent, step)))
        values = folded
    return combine(values[0], cute.arch.shuffle_sync_bfly(values[0], LOADED_COLUMNS))
