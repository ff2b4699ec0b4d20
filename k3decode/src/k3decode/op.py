"""What an op is to the rest of the package: a name, cases, and how one case runs and is judged.

Device code, launch and reference live in the op's folder. A `Trial` is one case with its tensors:
it runs the kernel first, on poisoned outputs, and only then works out what it should have written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from k3decode.cost import Cost
from k3decode.recording import RecordedCall
from k3decode.tolerance import Judgement

__all__ = [
    "GROUPS",
    "SERVED_ROWS",
    "Case",
    "CaseGroup",
    "Launch",
    "Op",
    "Part",
    "Replay",
    "Trial",
    "poisoned",
]

CaseGroup = Literal["smoke", "corner", "production", "rows", "replay"]
"""Quick; unusual; as K3 is served; every number of rows from 1 to 64; recorded launches."""

GROUPS: tuple[CaseGroup, ...] = ("smoke", "corner", "production", "rows")
"""Groups of an op's own cases."""

SERVED_ROWS = (1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 33, 48, 64)
"""Rows of production cases: powers of two, one beside them, and between; a batch has any number."""

_Thing = TypeVar("_Thing")

Launch = Callable[..., None]
"""Runs an op's kernel: validates, compiles at the first call, launches; writes its outputs."""


@dataclass(frozen=True)
class Trial:
    """One case, ready to run."""

    run: Callable[[], None]
    """Launches once. State is changed in place, so only the first launch can be judged."""
    judge: Callable[[], tuple[Judgement, ...]]
    """Compares every output and every buffer that must stay as it was; call it after `run`."""
    cost: Cost
    facts: Mapping[str, int] = field(default_factory=dict)
    """What else a time of this trial should be read with, for example how many experts it reads."""


@dataclass(frozen=True)
class Case:
    """One shape with its options."""

    name: str
    group: CaseGroup
    prepare: Callable[[Launch, torch.device], Trial]
    """Makes the tensors on a device for a launch, the op's own or another with its signature."""


@dataclass(frozen=True)
class Part:
    """Which of several processes takes what: every `count`-th, from the `number`-th on."""

    number: int = 1
    count: int = 1

    @classmethod
    def of(cls, text: str) -> "Part":
        """Read "2/3".

        Raises:
            ValueError: it is no such text.
        """
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise ValueError(f"expected a part as 2/3, found '{text}'")
        return cls(int(number), int(count))

    def taken(self, things: Sequence[_Thing]) -> list[_Thing]:
        """Those of the things that are in it."""
        return list(things[self.number - 1 :: self.count])


Replay = Callable[[RecordedCall, Launch, torch.device], Trial]
"""Makes a trial of a recorded call instead of made-up tensors."""


@dataclass(frozen=True)
class Op:
    """One mathematical unit with a kernel."""

    name: str
    launch: Launch
    cases: tuple[Case, ...]
    variants: Mapping[str, Callable[[str], Any]]
    """Every compiled variant K3 needs: name -> compile for an architecture ("sm_90a"), no GPU.

    A variant is one compiled kernel, or a tuple of them where one launch runs several.
    """
    typical_variants: tuple[str, ...] = ()
    """Variants that CI compiles; without any, the last one named."""
    weights: frozenset[str] = frozenset()
    """Launch parameters that no step writes: they may be read before a producer has finished."""
    replay: Replay | None = None
    """None: recorded calls of this op cannot be judged yet."""


def poisoned(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """An output that no kernel may leave as it is: NaN, or an absurd number for integers."""
    fill = float("nan") if dtype.is_floating_point else -(1 << 20)
    return torch.full(shape, fill, dtype=dtype, device=device)
