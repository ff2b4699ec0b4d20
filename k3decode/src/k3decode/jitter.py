"""Launches whose inputs arrive late, for `check --jitter`.

Before each launch every activation is overwritten with poison, and producers bring the true bytes
back: one kernel per tensor, in random order, each after a random pause. They are a chain of
dependent launches themselves and run beside each other; so does a kernel that is launched as a
dependent of the last, and whatever it reads before its own wait is poison. Meanwhile a second
stream crowds a random number of SMs for a random time, so that the CTAs of one launch start apart.

What this cannot show: a kernel that is launched in plain stream order has nothing to wait for and
passes, so `chain_of` says of an op how many of its kernels are launched as dependents; between the
kernels of one launch nothing is delayed but what the second stream does and what the first of them
waits for; a race that needs another order of CTAs than the ones that were drawn stays unseen.
"""

import inspect
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from k3decode.audit.declaration import read_declarations
from k3decode.device.delayed_copy import CopyConfig, DelayedCopyKernel
from k3decode.host.inputs import ARCHITECTURES
from k3decode.kernel_folders import kernel_folders
from k3decode.launch_memory import tensors_in
from k3decode.mutant import starts_early
from k3decode.op import Launch, Op

__all__ = ["Chain", "Jitter", "activations", "chain_of", "compile_delays"]

# About 0.3 to 1.5 ms at 1.8 GHz: longer than a busy host needs for the next launch.
_PAUSE_CYCLES = (540_000, 2_700_000)
# About 5 to 50 us: as long as one or many launches of a step.
_LINK_CYCLES = (9_000, 90_000)
# About 5 ms: what is not noticed then is not noticed at all.
_LONG_PAUSE_CYCLES = 9_000_000
# About 0.1 ms: the launch of one more producer by a busy host.
_LAUNCH_CYCLES = 180_000
_PRODUCER_CTAS = 16
_MAX_CROWDED = 132
_FIRST_PRODUCER = CopyConfig(dependent=False, waits="never")
_PRODUCER = CopyConfig(dependent=True, waits="after")
# Most of an SM's shared memory and half its threads.
_CROWD = CopyConfig(dependent=False, waits="never", threads=1024, shared_bytes=200_000)
_RIGHT = CopyConfig(dependent=True, waits="before")
_WRONG = CopyConfig(dependent=True, waits="never")
_CONFIGS = (_FIRST_PRODUCER, _PRODUCER, _CROWD, _RIGHT, _WRONG)
_POISON = 0xFF
_HALVES = 2
_TRIES = 3


@dataclass(frozen=True)
class Chain:
    """How an op stands in a chain of dependent launches."""

    kernels: int
    """That its launch may run."""
    dependents: int
    """Of them, those that start before the kernel in front has ended: late inputs catch them."""

    def sentence(self, op: str) -> str:
        """For a person."""
        if not self.dependents:
            return f"{op}: no kernel starts early, so late inputs cannot show a missing wait"
        return f"{op}: {self.dependents} of {self.kernels} kernels start early, as dependents"


def chain_of(op: str, others: Sequence[str]) -> Chain:
    """Read it off what the op's kernels declare to the race audit, which a test compares.

    Args:
        op: its name.
        others: names of all ops.
    """
    declared = [
        one.dependent_launch and starts_early((folder / "kernel.py").read_text())
        for folder in kernel_folders(op, others)
        for one in read_declarations((folder / "audit.toml").read_text())
    ]
    return Chain(len(declared), sum(declared))


def activations(op: Op, *positional: Any, **named: Any) -> list[Tensor]:
    """Tensors of a call that are no weights, by the parameters of the op's own launch."""
    # A launch from elsewhere may take `*tensors`, which say of none what it is.
    bound = inspect.signature(op.launch).bind(*positional, **named)
    return [
        tensor
        for name, value in bound.arguments.items()
        if name not in op.weights
        for tensor in tensors_in(value)
        if tensor.numel()
    ]


def compile_delays(architecture: str) -> tuple[Any, ...]:
    """Compile all that late inputs need."""
    return tuple(_compiled(config, architecture) for config in _CONFIGS)


class Jitter:
    """Delays on one GPU, drawn from one seed."""

    def __init__(self, device: torch.device, seed: int) -> None:
        self._device = device
        self._random = random.Random(seed)  # noqa: S311
        self._side = torch.cuda.Stream(device)
        self._scratch = torch.zeros(64, dtype=torch.uint8, device=device)
        architecture = ARCHITECTURES[torch.cuda.get_device_capability(device)]
        self._kernels = dict(zip(_CONFIGS, compile_delays(architecture), strict=True))

    def delayed(self, op: Op, launch: Launch) -> Launch:
        """The launch behind late producers; call it once before without, so that it is compiled."""

        def launch_late(*positional: Any, **named: Any) -> None:
            given = activations(op, *positional, **named)
            self._produce_late([tensor for tensor in given if tensor.device.type == "cuda"])
            launch(*positional, **named)
            torch.cuda.current_stream().wait_stream(self._side)

        return launch_late

    def doubt(self) -> str | None:
        """What speaks against the delays themselves, on this machine; None when nothing does."""
        if self._poisoned_halves(_RIGHT):
            return "a dependent copy that waits for its producers read poison"
        # A busy host may be late itself, so that the producers are done before the next launch.
        noticed = (self._poisoned_halves(_WRONG) for _ in range(_TRIES))
        if _HALVES not in noticed:
            return "a dependent copy that does not wait for its producers was not noticed"
        return None

    def pause(self) -> None:
        """A link of a chain of dependent launches that ends late, and after the one before it."""
        cycles = self._random.randint(*_LINK_CYCLES)
        self._copy(_PRODUCER, self._scratch, self._scratch, cycles=cycles, ctas=1)

    def _poisoned_halves(self, consumer: CopyConfig) -> int:
        """Of two halves with a late producer each, how many the consumer got as poison."""
        source = torch.arange(64, dtype=torch.uint8, device=self._device)
        target = torch.zeros_like(source)
        # Twice, so that nothing is left to load when it counts.
        for _ in range(2):
            target.zero_()
            torch.cuda.synchronize(self._device)
            self._produce_late([source[:32], source[32:]], _LONG_PAUSE_CYCLES)
            self._copy(consumer, source, target, cycles=0, ctas=1)
            torch.cuda.synchronize(self._device)
        return int((target.view(_HALVES, -1) == _POISON).all(dim=1).sum())

    def _produce_late(self, late: list[Tensor], cycles: int | None = None) -> None:
        """Poison tensors and bring them back, each after a pause: a given or a random one."""
        spans = [_span(tensor) for tensor in late]
        true_bytes = [span.clone() for span in spans]
        for tensor, span in zip(late, spans, strict=True):
            # Poison that no reader can follow out of its memory: page 0, expert 0, token 0.
            span.fill_(_POISON if _is_number(tensor) else 0)
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            self._copy(
                _CROWD,
                self._scratch,
                self._scratch,
                cycles=self._pause(),
                ctas=self._random.randint(1, _MAX_CROWDED),
            )
        order = list(range(len(spans)))
        self._random.shuffle(order)
        for number, place in enumerate(order):
            # All of them are late still when the last has been launched.
            ahead = _LAUNCH_CYCLES * (len(order) - 1 - number)
            self._copy(
                _PRODUCER if number else _FIRST_PRODUCER,
                true_bytes[place],
                spans[place],
                cycles=ahead + (self._pause() if cycles is None else cycles),
                ctas=_PRODUCER_CTAS,
            )

    def _pause(self) -> int:
        return self._random.randint(*_PAUSE_CYCLES)

    def _copy(
        self, config: CopyConfig, source: Tensor, target: Tensor, *, cycles: int, ctas: int
    ) -> None:
        from k3decode.host.compilation import byte_pointer, current_stream  # noqa: PLC0415

        self._kernels[config](
            byte_pointer(source),
            byte_pointer(target),
            source.numel(),
            cycles,
            ctas,
            current_stream(),
        )


def _compiled(config: CopyConfig, architecture: str) -> Any:
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415

    arguments = placeholders([torch.uint8, torch.uint8], 2, 1)
    return compile_kernel(DelayedCopyKernel(config), arguments, architecture)


def _is_number(tensor: Tensor) -> bool:
    """Whether the bytes are numbers of a format instead of indices."""
    return bool(tensor.dtype.is_floating_point) or tensor.dtype == torch.uint8


def _span(tensor: Tensor) -> Tensor:
    """All bytes from a view's first to its last element, [N]."""
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    size = tensor.element_size()
    start = tensor.storage_offset() * size
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    whole.set_(tensor.untyped_storage())
    return whole[start : start + extent * size]
