# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time.
# ruff: noqa: ARG002
"""Small kernels to audit that copy tiles with tensor maps of `activation` and of `weight`."""

import cuda.bindings.driver as cuda
from cutlass import Float32, Int32, cute
from cutlass.cute.nvgpu import cpasync

from .audited import PARITY, THREADS, new_barrier, store, thread

__all__ = ["TENSOR_KERNELS"]

_TILE = (16, 32)
_ROWS = 64


class _TensorCopies:
    """Launches a device function with tensor maps of the activation and of the weight."""

    @cute.jit
    def __call__(
        self,
        activation: cute.Pointer,
        weight: cute.Pointer,
        flag: cute.Pointer,
        out: cute.Pointer,
        count: Int32,
        stream: cuda.CUstream,
    ):
        layout = cute.make_layout((_ROWS, _TILE[1]), stride=(_TILE[1], 1))
        tile = cute.make_layout(_TILE, stride=(_TILE[1], 1))
        copy = cpasync.CopyBulkTensorTileG2SOp()
        activation_copy, mActivation = cpasync.make_tiled_tma_atom(
            copy, cute.make_tensor(activation, layout), tile, _TILE
        )
        weight_copy, mWeight = cpasync.make_tiled_tma_atom(
            copy, cute.make_tensor(weight, layout), tile, _TILE
        )
        self.kernel(activation_copy, mActivation, weight_copy, mWeight, out).launch(
            grid=[1, 1, 1], block=[THREADS, 1, 1], stream=stream, use_pdl=True
        )


@cute.jit
def _tile_buffer() -> cute.Tensor:
    buffer = cute.arch.alloc_smem(Float32, _TILE[0] * _TILE[1], alignment=128)
    return cute.make_tensor(buffer, cute.make_layout(_TILE, stride=(_TILE[1], 1)))


@cute.jit
def _copy_tile(atom: cute.CopyAtom, mSource: cute.Tensor, sTile: cute.Tensor, barrier):
    gTile = cute.local_tile(mSource, _TILE, (0, 0))
    tTsT, tTgT = cpasync.tma_partition(
        atom,
        0,
        cute.make_layout(1),
        cute.group_modes(sTile, 0, 2),
        cute.group_modes(gTile, 0, 2),
    )
    cute.copy(atom, tTgT, tTsT, tma_bar_ptr=barrier)


class TensorCopyBeforeWait(_TensorCopies):
    """Wrong: TMA reads the activation before the wait."""

    @cute.kernel
    def kernel(self, activation_copy, mActivation, weight_copy, mWeight, out):
        sTile = _tile_buffer()
        barrier = new_barrier()
        if thread() == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, 2 * _TILE[0] * _TILE[1] * 4)
            _copy_tile(weight_copy, mWeight, sTile, barrier)
            _copy_tile(activation_copy, mActivation, sTile, barrier)
        cute.arch.griddepcontrol_wait()
        cute.arch.mbarrier_wait(barrier, PARITY)
        store(out, thread(), sTile[0, 0])


class TensorCopyOfWeights(_TensorCopies):
    """Right: TMA reads the weight before the wait, the activation after it."""

    @cute.kernel
    def kernel(self, activation_copy, mActivation, weight_copy, mWeight, out):
        sTile = _tile_buffer()
        barrier = new_barrier()
        if thread() == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, 2 * _TILE[0] * _TILE[1] * 4)
            _copy_tile(weight_copy, mWeight, sTile, barrier)
            cute.arch.griddepcontrol_wait()
            _copy_tile(activation_copy, mActivation, sTile, barrier)
        cute.arch.mbarrier_wait(barrier, PARITY)
        store(out, thread(), sTile[0, 0])


TENSOR_KERNELS = {
    "tensor_copy_before_wait": TensorCopyBeforeWait,
    "tensor_copy_of_weights": TensorCopyOfWeights,
}
"""Name -> kernel."""
