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

__all__ = ["KERNELS", "PARITY", "THREADS", "new_barrier", "store", "thread"]

THREADS = 128
_BYTES = 512
PARITY = 0
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
            grid=[1, 1, 1], block=[THREADS, 1, 1], stream=stream, use_pdl=True
        )


def thread() -> Int32:
    """Index of the thread."""
    return cute.arch.thread_idx()[0]


@cute.jit
def _load(pointer: cute.Pointer, index: Int32) -> Float32:
    return cute.make_tensor(pointer, cute.make_layout(_MANY))[index]


@cute.jit
def store(pointer: cute.Pointer, index: Int32, value: Float32):
    """Write one element."""
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
def new_barrier() -> cute.Pointer:
    """An mbarrier for one arrival, known to all threads."""
    barrier = cute.arch.alloc_smem(Int64, 1, alignment=8)
    if thread() == 0:
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
        value = _load(activation, thread())
        cute.arch.griddepcontrol_wait()
        store(out, thread(), value + _load(weight, thread()))


class WeightPrefetch(_Kernel):
    """Right: only the weight is read before the wait, also past the coherent path."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        value = _load(weight, thread()) + _load_noncoherent(weight, thread() + THREADS)
        cute.arch.griddepcontrol_wait()
        store(out, thread(), value * _load(activation, thread()))


class NoncoherentActivation(_Kernel):
    """Wrong: after the wait, but past the coherent path."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        cute.arch.griddepcontrol_wait()
        store(out, thread(), _load_noncoherent(activation, thread()))


class LoadBeforePoll(_Kernel):
    """Wrong: the payload is read before the flag says that it is there."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        value = _load(activation, thread())
        _poll_acquire(flag)
        store(out, thread(), value)


class LoadAfterPoll(_Kernel):
    """Right: the poll is the wait."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        value = _load(weight, thread())
        _poll_acquire(flag)
        store(out, thread(), value + _load(activation, thread()))


class LoadInsidePoll(_Kernel):
    """Wrong: the payload is read again in each round of the poll, the last time too early."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        value = Float32(0.0)
        ready = Int32(0)
        while ready == 0:
            value += _load(activation, thread())
            ready = cute.arch.load(flag, Int32, sem="acquire", scope="gpu")
        store(out, thread(), value)


class PollThatGivesUp(_Kernel):
    """Wrong: after too many rounds the kernel goes on as if the flag had been set."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        rounds = Int32(0)
        ready = Int32(0)
        while (ready == 0) & (rounds < count):
            ready = cute.arch.load(flag, Int32, sem="acquire", scope="gpu")
            rounds += 1
        store(out, thread(), _load(activation, thread()))


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
            store(out, thread(), _load(activation, thread()))


class WaitOnOneBranch(_Kernel):
    """Wrong: with few rows nobody waits."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        if count > 4:
            cute.arch.griddepcontrol_wait()
            store(out, thread() + THREADS, Float32(1.0))
        store(out, thread(), _load(activation, thread()))


class WaitOnBothBranches(_Kernel):
    """Right: no single wait dominates the load, but no path avoids them."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        if count > 4:
            cute.arch.griddepcontrol_wait()
            store(out, thread() + THREADS, Float32(1.0))
        else:
            _poll_acquire(flag)
        store(out, thread(), _load(activation, thread()))


class WaitDominates(_Kernel):
    """Right: the load is conditional, the wait is not."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        cute.arch.griddepcontrol_wait()
        value = Float32(0.0)
        if count > 4:
            value = _load(activation, thread())
        store(out, thread(), value)


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
            read_only_args=[source + Int64(thread()) * 4],
        )
        cute.arch.griddepcontrol_wait()
        store(out, thread(), value)


class PointerFromMemory(_Kernel):
    """Wrong: nobody knows what the loaded address leads to."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        cute.arch.griddepcontrol_wait()
        table = cute.recast_ptr(flag, dtype=Int64)
        address = cute.make_tensor(table, cute.make_layout(_MANY))[thread()]
        value = cute.arch.inline_ptx(
            "ld.global.f32 {$w0}, [{$r0}];",
            write_only_types=[Float32],
            read_only_args=[address],
        )
        store(out, thread(), value)


class AsyncCopyBeforeWait(_Kernel):
    """Wrong: cp.async reads the activation before the wait, and is waited for after it."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        buffer = cute.arch.alloc_smem(Float32, THREADS, alignment=128)
        cute.arch.inline_ptx(
            "cp.async.ca.shared.global [{$r0}], [{$r1}], 4;",
            read_only_args=[(buffer + thread()).toint(), (activation + thread()).toint()],
        )
        cute.arch.griddepcontrol_wait()
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        store(out, thread(), _load(buffer, thread()))


class BulkCopyBeforeWait(_Kernel):
    """Wrong: a bulk copy of the activation is started before the wait."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        buffer = cute.arch.alloc_smem(Float32, THREADS, alignment=128)
        barrier = new_barrier()
        if thread() == 0:
            _bulk_copy(activation, buffer, barrier)
        cute.arch.griddepcontrol_wait()
        cute.arch.mbarrier_wait(barrier, PARITY)
        store(out, thread(), _load(buffer, thread()))


class LoadAfterMbarrier(_Kernel):
    """Right: one thread waits and copies; the others wait for the copy, then read themselves."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        buffer = cute.arch.alloc_smem(Float32, THREADS, alignment=128)
        barrier = new_barrier()
        if thread() == 0:
            cute.arch.griddepcontrol_wait()
            _bulk_copy(activation, buffer, barrier)
        cute.arch.mbarrier_wait(barrier, PARITY)
        store(out, thread(), _load(buffer, thread()) + _load(activation, thread()))


class LoadAfterMbarrierOfWeights(_Kernel):
    """Wrong: what the mbarrier waits for is a copy of weights, which nobody has to wait for."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        buffer = cute.arch.alloc_smem(Float32, THREADS, alignment=128)
        barrier = new_barrier()
        if thread() == 0:
            _bulk_copy(weight, buffer, barrier)
        cute.arch.mbarrier_wait(barrier, PARITY)
        value = _load(activation, thread())
        cute.arch.griddepcontrol_wait()
        store(out, thread(), _load(buffer, thread()) + value)


class OneThreadWaits(_Kernel):
    """Right: one thread polls, then all meet."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        if thread() == 0:
            _poll_acquire(flag)
        cute.arch.sync_threads()
        store(out, thread(), _load(activation, thread()))


class OneThreadWaitsAlone(_Kernel):
    """Wrong: one thread polls, and the others do not wait for it."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        if thread() == 0:
            _poll_acquire(flag)
        store(out, thread(), _load(activation, thread()))


class MailboxFragments(_Kernel):
    """Right: reads two fragments until neither holds the sentinel; the data is its own flag."""

    @cute.kernel
    def kernel(self, activation, weight, flag, out, count: Int32):
        mailbox = cute.recast_ptr(activation, dtype=Int32)
        sentinel = Int32(-(1 << 31))
        one = cute.arch.load(mailbox + thread(), Int32, sem="relaxed", scope="sys")
        other = cute.arch.load(mailbox + thread() + THREADS, Int32, sem="relaxed", scope="sys")
        while (one == sentinel) | (other == sentinel):
            one = cute.arch.load(mailbox + thread(), Int32, sem="relaxed", scope="sys")
            other = cute.arch.load(mailbox + thread() + THREADS, Int32, sem="relaxed", scope="sys")
        store(out, thread(), (one + other).to(Float32))


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
    "weight_prefetch": WeightPrefetch,
    "load_after_poll": LoadAfterPoll,
    "wait_on_both_branches": WaitOnBothBranches,
    "wait_dominates": WaitDominates,
    "load_after_mbarrier": LoadAfterMbarrier,
    "one_thread_waits": OneThreadWaits,
    "poll_that_stops": PollThatStops,
    "mailbox_fragments": MailboxFragments,
}
"""Name -> kernel."""
