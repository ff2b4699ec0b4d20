# mypy: ignore-errors
# CuTe's names for memory spaces, and device code that branches at compile time. All kernels have
# the same parameters, whether they use them or not.
# ruff: noqa: ARG002
"""Small kernels to audit: some are wrong in one way, others only look as if they were.

All take `activation`, `weight`, `flag` and `out` in this order, so that one declaration serves:
`weight` is static. `disassembly.py` compiles them; nothing ever runs them.
"""

import cuda.bindings.driver as cuda
from cutlass import Float32, Int32, Int64, cute
from cutlass.cute.nvgpu import cpasync

__all__ = ["KERNELS"]

_THREADS = 128
_BYTES = 512
_PARITY = 0
_MANY = 1 << 20


class _Kernel:
    """Launches one device function with the same parameters each."""

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
        self.kernel(activation, weight, flag, out, count).launch(
            grid=[1, 1, 1], block=[_THREADS, 1, 1], stream=stream, use_pdl=True
        )


def _thread():
    return cute.arch.thread_idx()[0]


@cute.jit
def _load(pointer: cute.Pointer, index: Int32) -> Float32:
    return cute.make_tensor(pointer, cute.make_layout(_MANY))[index]


@cute.jit
def _store(pointer: cute.Pointer, index: Int32, value: Float32):
    cute.make_tensor(pointer, cute.make_layout(_MANY))[index] = value


@cute.jit
def _load_noncoherent(pointer: cute.Pointer, index: Int32) -> Float32:
    return cute.arch.inline_ptx(
        "ld.global.nc.f32 {$w0}, [{$r0}];",
        write_only_types=[Float32],
        read_only_args=[(pointer + index).toint()],
    )


@cute.jit
def _poll_acquire(flag: cute.Pointer):
    ready = Int32(0)
    while ready == 0:
        ready = cute.arch.load(flag, Int32, sem="acquire", scope="gpu")


@cute.jit
def _barrier() -> cute.Pointer:
    barrier = cute.arch.alloc_smem(Int64, 1, alignment=8)
    if _thread() == 0:
        cute.arch.mbarrier_init(barrier, 1)
    cute.arch.sync_threads()
    return barrier


@cute.jit
def _bulk_copy(source: cute.Pointer, target: cute.Pointer, barrier: cute.Pointer):
    cute.arch.mbarrier_arrive_and_expect_tx(barrier, _BYTES)
    cute.arch.inline_ptx(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[{$r0}], [{$r1}], {$r2}, [{$r3}];",
        read_only_args=[target.toint(), source.toint(), Int32(_BYTES), barrier.toint()],
    )


class HoistedActivation(_Kernel):
    """Wrong: reads the activation first, then waits."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        value = _load(activation, _thread())
        cute.arch.griddepcontrol_wait()
        _store(out, _thread(), value + _load(weight, _thread()))


class WeightPrefetch(_Kernel):
    """Right: only the weight is read before the wait, also past the coherent path."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        value = _load(weight, _thread()) + _load_noncoherent(weight, _thread() + _THREADS)
        cute.arch.griddepcontrol_wait()
        _store(out, _thread(), value * _load(activation, _thread()))


class NoncoherentActivation(_Kernel):
    """Wrong: after the wait, but past the coherent path."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        cute.arch.griddepcontrol_wait()
        _store(out, _thread(), _load_noncoherent(activation, _thread()))


class LoadBeforePoll(_Kernel):
    """Wrong: the payload is read before the flag says that it is there."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        value = _load(activation, _thread())
        _poll_acquire(flag)
        _store(out, _thread(), value)


class LoadAfterPoll(_Kernel):
    """Right: the poll is the wait."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        value = _load(weight, _thread())
        _poll_acquire(flag)
        _store(out, _thread(), value + _load(activation, _thread()))


class LoadInsidePoll(_Kernel):
    """Wrong: the payload is read again in each round of the poll, the last time too early."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        value = Float32(0.0)
        ready = Int32(0)
        while ready == 0:
            value += _load(activation, _thread())
            ready = cute.arch.load(flag, Int32, sem="acquire", scope="gpu")
        _store(out, _thread(), value)


class PollThatGivesUp(_Kernel):
    """Wrong: after too many rounds the kernel goes on as if the flag had been set."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        rounds = Int32(0)
        ready = Int32(0)
        while (ready == 0) & (rounds < count):
            ready = cute.arch.load(flag, Int32, sem="acquire", scope="gpu")
            rounds += 1
        _store(out, _thread(), _load(activation, _thread()))


class PollThatStops(_Kernel):
    """Right: after too many rounds the kernel ends without a read."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        rounds = Int32(0)
        ready = Int32(0)
        while (ready == 0) & (rounds < count):
            ready = cute.arch.load(flag, Int32, sem="acquire", scope="gpu")
            rounds += 1
        if ready != 0:
            _store(out, _thread(), _load(activation, _thread()))


class WaitOnOneBranch(_Kernel):
    """Wrong: with few rows nobody waits."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        if count > 4:
            cute.arch.griddepcontrol_wait()
            _store(out, _thread() + _THREADS, Float32(1.0))
        _store(out, _thread(), _load(activation, _thread()))


class WaitOnBothBranches(_Kernel):
    """Right: no single wait dominates the load, but no path avoids them."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        if count > 4:
            cute.arch.griddepcontrol_wait()
            _store(out, _thread() + _THREADS, Float32(1.0))
        else:
            _poll_acquire(flag)
        _store(out, _thread(), _load(activation, _thread()))


class WaitDominates(_Kernel):
    """Right: the load is conditional, the wait is not."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        cute.arch.griddepcontrol_wait()
        value = Float32(0.0)
        if count > 4:
            value = _load(activation, _thread())
        _store(out, _thread(), value)


class SelectOfTwo(_Kernel):
    """Wrong: what is read before the wait is the weight only sometimes."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        source = activation.toint()
        if count > 4:
            source = weight.toint()
        value = cute.arch.inline_ptx(
            "ld.global.f32 {$w0}, [{$r0}];",
            write_only_types=[Float32],
            read_only_args=[source + Int64(_thread()) * 4],
        )
        cute.arch.griddepcontrol_wait()
        _store(out, _thread(), value)


class PointerFromMemory(_Kernel):
    """Wrong: nobody knows what the loaded address leads to."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        cute.arch.griddepcontrol_wait()
        table = cute.recast_ptr(flag, dtype=Int64)
        address = cute.make_tensor(table, cute.make_layout(_MANY))[_thread()]
        value = cute.arch.inline_ptx(
            "ld.global.f32 {$w0}, [{$r0}];",
            write_only_types=[Float32],
            read_only_args=[address],
        )
        _store(out, _thread(), value)


class AsyncCopyBeforeWait(_Kernel):
    """Wrong: cp.async reads the activation before the wait, and is waited for after it."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        buffer = cute.arch.alloc_smem(Float32, _THREADS, alignment=128)
        cute.arch.inline_ptx(
            "cp.async.ca.shared.global [{$r0}], [{$r1}], 4;",
            read_only_args=[(buffer + _thread()).toint(), (activation + _thread()).toint()],
        )
        cute.arch.griddepcontrol_wait()
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        _store(out, _thread(), _load(buffer, _thread()))


class BulkCopyBeforeWait(_Kernel):
    """Wrong: a bulk copy of the activation is started before the wait."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        buffer = cute.arch.alloc_smem(Float32, _THREADS, alignment=128)
        barrier = _barrier()
        if _thread() == 0:
            _bulk_copy(activation, buffer, barrier)
        cute.arch.griddepcontrol_wait()
        cute.arch.mbarrier_wait(barrier, _PARITY)
        _store(out, _thread(), _load(buffer, _thread()))


class LoadAfterMbarrier(_Kernel):
    """Right: one thread waits and copies; the others wait for the copy, then read themselves."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        buffer = cute.arch.alloc_smem(Float32, _THREADS, alignment=128)
        barrier = _barrier()
        if _thread() == 0:
            cute.arch.griddepcontrol_wait()
            _bulk_copy(activation, buffer, barrier)
        cute.arch.mbarrier_wait(barrier, _PARITY)
        _store(out, _thread(), _load(buffer, _thread()) + _load(activation, _thread()))


class LoadAfterMbarrierOfWeights(_Kernel):
    """Wrong: what the mbarrier waits for is a copy of weights, which nobody has to wait for."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        buffer = cute.arch.alloc_smem(Float32, _THREADS, alignment=128)
        barrier = _barrier()
        if _thread() == 0:
            _bulk_copy(weight, buffer, barrier)
        cute.arch.mbarrier_wait(barrier, _PARITY)
        value = _load(activation, _thread())
        cute.arch.griddepcontrol_wait()
        _store(out, _thread(), _load(buffer, _thread()) + value)


class OneThreadWaits(_Kernel):
    """Right: one thread polls, then all meet."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        if _thread() == 0:
            _poll_acquire(flag)
        cute.arch.sync_threads()
        _store(out, _thread(), _load(activation, _thread()))


class OneThreadWaitsAlone(_Kernel):
    """Wrong: one thread polls, and the others do not wait for it."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        if _thread() == 0:
            _poll_acquire(flag)
        _store(out, _thread(), _load(activation, _thread()))


class MailboxFragments(_Kernel):
    """Right: reads two fragments until neither holds the sentinel; the data is its own flag."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        mailbox = cute.recast_ptr(activation, dtype=Int32)
        sentinel = Int32(-(1 << 31))
        one = cute.arch.load(mailbox + _thread(), Int32, sem="relaxed", scope="sys")
        other = cute.arch.load(mailbox + _thread() + _THREADS, Int32, sem="relaxed", scope="sys")
        while (one == sentinel) | (other == sentinel):
            one = cute.arch.load(mailbox + _thread(), Int32, sem="relaxed", scope="sys")
            other = cute.arch.load(
                mailbox + _thread() + _THREADS, Int32, sem="relaxed", scope="sys"
            )
        _store(out, _thread(), (one + other).to(Float32))


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
            grid=[1, 1, 1], block=[_THREADS, 1, 1], stream=stream, use_pdl=True
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
        barrier = _barrier()
        if _thread() == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, 2 * _TILE[0] * _TILE[1] * 4)
            _copy_tile(weight_copy, mWeight, sTile, barrier)
            _copy_tile(activation_copy, mActivation, sTile, barrier)
        cute.arch.griddepcontrol_wait()
        cute.arch.mbarrier_wait(barrier, _PARITY)
        _store(out, _thread(), sTile[0, 0])


class TensorCopyOfWeights(_TensorCopies):
    """Right: TMA reads the weight before the wait, the activation after it."""

    @cute.kernel
    def kernel(self, activation_copy, mActivation, weight_copy, mWeight, out):
        sTile = _tile_buffer()
        barrier = _barrier()
        if _thread() == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, 2 * _TILE[0] * _TILE[1] * 4)
            _copy_tile(weight_copy, mWeight, sTile, barrier)
            cute.arch.griddepcontrol_wait()
            _copy_tile(activation_copy, mActivation, sTile, barrier)
        cute.arch.mbarrier_wait(barrier, _PARITY)
        _store(out, _thread(), sTile[0, 0])


KERNELS = {
    "hoisted_activation": HoistedActivation,
    "noncoherent_activation": NoncoherentActivation,
    "load_before_poll": LoadBeforePoll,
    "load_inside_poll": LoadInsidePoll,
    "poll_that_gives_up": PollThatGivesUp,
    "wait_on_one_branch": WaitOnOneBranch,
    "select_of_two": SelectOfTwo,
    "pointer_from_memory": PointerFromMemory,
    "async_copy_before_wait": AsyncCopyBeforeWait,
    "bulk_copy_before_wait": BulkCopyBeforeWait,
    "load_after_mbarrier_of_weights": LoadAfterMbarrierOfWeights,
    "one_thread_waits_alone": OneThreadWaitsAlone,
    "tensor_copy_before_wait": TensorCopyBeforeWait,
    "weight_prefetch": WeightPrefetch,
    "load_after_poll": LoadAfterPoll,
    "wait_on_both_branches": WaitOnBothBranches,
    "wait_dominates": WaitDominates,
    "load_after_mbarrier": LoadAfterMbarrier,
    "one_thread_waits": OneThreadWaits,
    "poll_that_stops": PollThatStops,
    "tensor_copy_of_weights": TensorCopyOfWeights,
    "mailbox_fragments": MailboxFragments,
}
"""Name -> kernel."""
