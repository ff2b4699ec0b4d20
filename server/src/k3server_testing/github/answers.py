"""What the stand-in sends back, made from the description's examples."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "laid"]


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    status: int
    """HTTP status."""
    content: Any
    """JSON."""
    headers: dict[str, str] = field(default_factory=dict)
    """More headers."""


def laid(example: Any, changes: dict[str, Any]) -> Any:
    """The example with some values replaced, also inside of objects."""
    made = deepcopy(example)
    for name, value in changes.items():
        inner = made.get(name)
        nested = isinstance(value, dict) and isinstance(inner, dict)
        made[name] = laid(inner, value) if nested else value
    return made
