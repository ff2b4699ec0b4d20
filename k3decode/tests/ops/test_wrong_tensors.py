"""Any tensor of any launch, wrong in one way: refused in words, before anything is compiled."""

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache, wraps
from typing import Any

import pytest
import torch
from torch import Tensor

from k3decode.host.inputs import MAX_ROWS, KernelInputError
from k3decode.op import Op
from k3decode.registry import OPS, op_named

Path = tuple[str, ...]
Change = Callable[[Tensor], Tensor]

# Parameter that says how many rows there are, where it is not the output.
ROWS = {
    "mla_decode": "query",
    "mla_prepare": "query",
    "mla_query": "absorbed",
    "projection": "activation",
    "router": "experts",
}


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that gets as far as compiling cannot import what it needs."""
    monkeypatch.setitem(sys.modules, "k3decode.host.compilation", None)


@cache
def _arguments(name: str) -> inspect.BoundArguments:
    """What the last smoke case of an op gives to its launch, on the CPU."""
    op = op_named(name)
    signature = inspect.signature(op.launch)
    seen: list[inspect.BoundArguments] = []

    @wraps(op.launch)
    def look(*positional: Any, **named: Any) -> None:
        seen.append(signature.bind(*positional, **named))

    (*_, case) = (case for case in op.cases if case.group == "smoke")
    case.prepare(look, torch.device("cpu")).run()
    return seen[0]


def _leaves(value: object, path: Path) -> Iterator[tuple[Path, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _leaves(getattr(value, field.name), (*path, field.name))


def _tensors(op: Op) -> list[tuple[Path, Tensor]]:
    given = _arguments(op.name).arguments
    return [leaf for name, value in given.items() for leaf in _leaves(value, (name,))]


def _replaced(value: Any, path: Path, change: Change) -> Any:
    if not path:
        return change(value)
    inner = _replaced(getattr(value, path[0]), path[1:], change)
    return replace(value, **{path[0]: inner})


def _refusal(op: Op, path: Path, change: Change) -> str:
    bound = _arguments(op.name)
    given = dict(bound.arguments)
    given[path[0]] = _replaced(given[path[0]], path[1:], change)
    called = inspect.BoundArguments(bound.signature, given)
    with pytest.raises(KernelInputError) as refusal:
        op.launch(*called.args, **called.kwargs)
    return str(refusal.value)


def _other_dtype(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int16)


def _spread(tensor: Tensor) -> Tensor:
    return tensor.repeat_interleave(2, dim=-1)[..., ::2]


def _off_by_one(tensor: Tensor) -> Tensor:
    """The same strides, one element behind where an allocation starts."""
    span = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.new_zeros(span + 2).as_strided(tensor.shape, tensor.stride(), 1)


EVERY = [
    pytest.param(op, path, tensor, id=f"{op.name}-{'.'.join(path)}")
    for op in OPS
    for path, tensor in _tensors(op)
]


@pytest.mark.parametrize(("op", "path", "tensor"), EVERY)
def test_another_dtype_is_refused(op: Op, path: Path, tensor: Tensor) -> None:
    wrong = _other_dtype(tensor).dtype
    text = _refusal(op, path, _other_dtype)
    assert f"{path[-1]}: expected {tensor.dtype}, found {wrong}" in text


@pytest.mark.parametrize(("op", "path", "tensor"), EVERY)
def test_gaps_on_the_last_axis_are_refused(op: Op, path: Path, tensor: Tensor) -> None:
    if tensor.shape[-1] == 1:
        # One column has no stride; a launch must not fall over it.
        assert f"{path[-1]}: expected stride" not in _refusal(op, path, _spread)
        return
    axis = tensor.ndim - 1
    text = _refusal(op, path, _spread)
    assert f"{path[-1]}: expected stride 1 on axis {axis}, found 2" in text


@pytest.mark.parametrize(("op", "path", "tensor"), EVERY)
def test_a_first_element_between_16_bytes_is_refused(op: Op, path: Path, tensor: Tensor) -> None:
    text = _refusal(op, path, _off_by_one)
    problem = f"{path[-1]}: expected a first element aligned to 16 bytes, found one"
    read_anywhere = tensor.dtype in {torch.int32, torch.int64} or not tensor.numel()
    assert (problem in text) is not read_anywhere


@pytest.mark.parametrize(("op", "path", "tensor"), EVERY)
def test_another_device_is_refused(op: Op, path: Path, tensor: Tensor) -> None:
    text = _refusal(op, path, lambda one: one.to("meta"))
    assert "found meta" in text
    assert "expected cpu as" in text or "expected a CUDA device" in text


@pytest.mark.parametrize(("op", "path", "tensor"), EVERY)
def test_another_number_of_axes_is_refused(op: Op, path: Path, tensor: Tensor) -> None:
    text = _refusal(op, path, lambda one: one[None])
    assert "expected" in text
    assert f"{[1, *tensor.shape]}" in text


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_batch_above_the_prepared_set_is_refused(op: Op) -> None:
    name = ROWS.get(op.name, "out")

    def longer(tensor: Tensor) -> Tensor:
        return tensor.new_zeros(MAX_ROWS + 1, *tensor.shape[1:])

    text = _refusal(op, (name,), longer)
    assert f"expected 1 to {MAX_ROWS} rows, found {MAX_ROWS + 1}: split the batch" in text


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_a_cpu_is_refused(op: Op) -> None:
    text = _refusal(op, _tensors(op)[0][0], lambda one: one)
    assert text.startswith(f"{op.name}: ")
    assert "expected a CUDA device, found cpu" in text
