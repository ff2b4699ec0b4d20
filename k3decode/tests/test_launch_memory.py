"""What launches are said to use is what they were given."""

from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.launch_memory import LaunchMemory, metered, tensors_in


@dataclass(frozen=True)
class _Pair:
    first: Tensor
    second: Tensor


@dataclass(frozen=True)
class _Scratch:
    sums: Tensor

    @property
    def bytes(self) -> int:
        return int(self.sums.numel())


def _launch(rows: Tensor, pair: _Pair, scratch: _Scratch, *, factor: float) -> None:
    rows.mul_(factor)


def test_allocations_behind_arguments_count_once_and_whole() -> None:
    memory = LaunchMemory()
    whole = torch.ones(8, 4)
    launch = metered(_launch, memory, torch.device("cpu"))
    scratch = _Scratch(torch.empty(100, dtype=torch.uint8))
    launch(whole[:2], _Pair(whole[2:4], torch.zeros(3)), scratch, factor=2.0)
    assert (memory.argument_bytes, memory.workspace_bytes) == (8 * 4 * 4 + 3 * 4 + 100, 100)
    assert memory.allocated_bytes is None
    assert whole[0, 0] == 2.0


def test_only_memory_that_a_launch_takes_is_a_problem() -> None:
    assert LaunchMemory(argument_bytes=8, allocated_bytes=0).problem() is None
    assert LaunchMemory(argument_bytes=8).problem() is None
    sentence = LaunchMemory(allocated_bytes=512).problem()
    assert sentence is not None
    assert "found 512 bytes: make them a workspace" in sentence


def test_tensors_are_found_inside_of_arguments() -> None:
    one, two, three = torch.zeros(1), torch.zeros(2), torch.zeros(3)
    found = list(tensors_in([_Pair(one, two), (three, None), "words"]))
    assert [tensor.numel() for tensor in found] == [1, 2, 3]
