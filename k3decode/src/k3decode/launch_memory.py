"""Device memory of launches: what their arguments occupy, and what they take beside it.

A launch may use its inputs, its outputs and workspaces, which are parameters of their own and say
how many `bytes` they are; allocating anything itself is a fault, which the check reports. Counted
is what torch's allocator hands out. What a driver keeps for a loaded module or for spilled
registers is not in it.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from k3decode.op import Launch

__all__ = ["LaunchMemory", "metered", "tensors_in"]


@runtime_checkable
class _Workspace(Protocol):
    """Memory between kernels, of one launch or of two."""

    @property
    def bytes(self) -> int:
        """Device memory that it takes."""


@dataclass
class LaunchMemory:
    """What the launches of one trial used; the largest of each."""

    argument_bytes: int = 0
    """Allocations behind all tensors that were passed, each once."""
    workspace_bytes: int = 0
    """Of them, workspaces."""
    allocated_bytes: int | None = None
    """Taken by a launch itself; None where nothing counts it."""

    def problem(self) -> str | None:
        """What is wrong, in a sentence; None when nothing is."""
        if not self.allocated_bytes:
            return None
        return (
            f"device memory: expected a launch that takes nothing beside its arguments, found "
            f"{self.allocated_bytes} bytes: make them a workspace that the caller passes"
        )


def metered(
    launch: Launch, memory: LaunchMemory, device: torch.device, *, like: Launch | None = None
) -> Launch:
    """The launch, which notes in `memory` what it uses.

    Args:
        launch: what is called.
        memory: receives what it uses.
        device: where it runs.
        like: launch whose parameters name the arguments; by default the same. One from elsewhere
            may take `*tensors` and `**options`.
    """
    signature = inspect.signature(like or launch)

    @wraps(launch)
    def launch_and_note(*positional: Any, **named: Any) -> None:
        arguments = signature.bind(*positional, **named).arguments
        _note_arguments(arguments, memory)
        if device.type != "cuda":
            launch(*positional, **named)
            return
        taken = _taken(lambda: launch(*positional, **named), device)
        memory.allocated_bytes = max(memory.allocated_bytes or 0, taken)

    return launch_and_note


def tensors_in(value: object) -> Iterator[Tensor]:
    """Tensors of an argument, which may be a dataclass or a sequence of them."""
    if isinstance(value, Tensor):
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)


def _note_arguments(arguments: Mapping[str, object], memory: LaunchMemory) -> None:
    storages: dict[int, int] = {}
    workspace = 0
    for value in arguments.values():
        for tensor in tensors_in(value):
            storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        if isinstance(value, _Workspace):
            workspace += value.bytes
    memory.argument_bytes = max(memory.argument_bytes, sum(storages.values()))
    memory.workspace_bytes = max(memory.workspace_bytes, workspace)


def _taken(run: Callable[[], None], device: torch.device) -> int:
    """Most bytes that were allocated while it ran, over what was allocated before."""
    before = int(torch.cuda.memory_allocated(device))
    torch.cuda.reset_peak_memory_stats(device)
    run()
    return int(torch.cuda.max_memory_allocated(device)) - before
