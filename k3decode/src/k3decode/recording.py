"""Recorded launches: a file of the tensors that a served run passed to kernels.

A recording is one `torch.save` of plain containers, read with `weights_only`, so that it runs no
code of whoever made it:

    {"schema": "k3decode.recording/1",
     "calls": [{"op": "kda", "name": "layer 4, step 17", "arguments": {"slots": tensor, ...}}]}

`arguments` has every launch parameter as it was before the launch, tensors on the CPU; fields of a
dataclass stand under `parameter.field`. Values are tensors, numbers, words, booleans or None.
"""

import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor

__all__ = ["RecordedCall", "RecordingError", "read_recording", "recorded", "write_recording"]

SCHEMA = "k3decode.recording/1"

_Value: TypeAlias = "Tensor | int | float | str | None"
_PLAIN = (bool, int, float, str, type(None))


class RecordingError(ValueError):
    """A recording cannot be read or does not hold what an op needs."""


@dataclass(frozen=True)
class RecordedCall:
    """One launch."""

    op: str
    name: str
    """Where it comes from, for a person."""
    arguments: Mapping[str, _Value]

    def tensor(self, name: str) -> Tensor:
        """A tensor argument.

        Raises:
            RecordingError: there is none of this name.
        """
        value = self.arguments.get(name)
        if not isinstance(value, Tensor):
            raise RecordingError(
                f"{self.op}, {self.name}: expected a tensor '{name}', found "
                f"{type(value).__name__} among {', '.join(sorted(self.arguments))}: record the "
                "launch again with this version"
            )
        return value

    def optional_tensor(self, name: str) -> Tensor | None:
        """A tensor argument that may be None.

        Raises:
            RecordingError: it is something else, or was not recorded.
        """
        if name in self.arguments and self.arguments[name] is None:
            return None
        return self.tensor(name)

    def number(self, name: str) -> float:
        """A number.

        Raises:
            RecordingError: there is none of this name.
        """
        value = self.arguments.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RecordingError(
                f"{self.op}, {self.name}: expected a number '{name}', found {value!r}: record the "
                "launch again with this version"
            )
        return value

    def whole(self, name: str) -> int:
        """A whole number.

        Raises:
            RecordingError: there is none of this name.
        """
        value = self.number(name)
        if value != int(value):
            raise RecordingError(
                f"{self.op}, {self.name}: expected a whole number '{name}', found {value}"
            )
        return int(value)


def recorded(
    op: str, launch: Callable[..., None], calls: list[RecordedCall], name: Callable[[], str]
) -> Callable[..., None]:
    """A launch that also appends each of its calls, copied to the CPU before it runs.

    Args:
        op: name of the op.
        launch: what is called; its parameter names become those of the recording.
        calls: receives the calls.
        name: says where the next call comes from.
    """
    signature = inspect.signature(launch)

    def record_and_launch(*positional: Any, **named: Any) -> None:
        bound = signature.bind(*positional, **named)
        bound.apply_defaults()
        arguments: dict[str, _Value] = {}
        for parameter, value in bound.arguments.items():
            arguments.update(_flat(parameter, value))
        calls.append(RecordedCall(op=op, name=name(), arguments=arguments))
        launch(*positional, **named)

    return record_and_launch


def _flat(name: str, value: Any) -> dict[str, _Value]:
    if isinstance(value, Tensor):
        return {name: value.detach().to("cpu", copy=True).contiguous()}
    if is_dataclass(value) and not isinstance(value, type):
        flat: dict[str, _Value] = {}
        for field in fields(value):
            flat.update(_flat(f"{name}.{field.name}", getattr(value, field.name)))
        return flat
    if isinstance(value, _PLAIN):
        return {name: value}
    raise RecordingError(
        f"expected tensors, numbers, words, None or a dataclass of them, found "
        f"{type(value).__name__} as '{name}'"
    )


def write_recording(path: Path, calls: Sequence[RecordedCall]) -> None:
    """Write a recording; the file exists whole or not at all."""
    content = {
        "schema": SCHEMA,
        "calls": [
            {"op": call.op, "name": call.name, "arguments": dict(call.arguments)} for call in calls
        ],
    }
    partial = path.with_name(f"{path.name}.partial")
    torch.save(content, partial)
    partial.replace(path)


def read_recording(path: Path) -> tuple[RecordedCall, ...]:
    """Read a recording.

    Raises:
        RecordingError: no such file, no recording, or one of another version.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise RecordingError(f"expected a recording at {path}, found none: {error}") from None
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError):
        # Not in torch's words: they advise to load the file without `weights_only`, which would
        # run whatever code is in it.
        raise RecordingError(
            f"expected a file of plain tensors at {path}, found something else: write it with "
            "k3decode.recording.write_recording"
        ) from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise RecordingError(f"{path}: expected schema {SCHEMA}, found {schema!r}")
    calls = content.get("calls")
    if not isinstance(calls, list) or not calls:
        raise RecordingError(f"{path}: expected a list of calls, found none: record a launch")
    return tuple(_call(path, place, call) for place, call in enumerate(calls))


def _call(path: Path, place: int, call: object) -> RecordedCall:
    match call:
        case {"op": str(op), "name": str(name), "arguments": dict(arguments)}:
            bad = [
                key
                for key, value in arguments.items()
                if not (isinstance(key, str) and isinstance(value, (Tensor, *_PLAIN)))
            ]
            if not bad:
                return RecordedCall(op=op, name=name, arguments=arguments)
            problem = f"the argument {bad[0]!r}"
        case _:
            problem = f"{type(call).__name__} without op, name and arguments"
    raise RecordingError(f"{path}: call {place} is not as recordings are, found {problem}")
