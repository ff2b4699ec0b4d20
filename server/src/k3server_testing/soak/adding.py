"""Adds up slices of one part of the soak, so that a long one can run when the machine has time."""

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["added", "slice_start"]

_COUNTED: Final = frozenset(
    {
        *(
            "kills",
            "intakes",
            "acknowledged_before",
            "acknowledged_after",
            "refused",
            "loss",
            "answers",
        ),
        *("bundles", "kinds", "codes", "accepted", "tracebacks", "sent", "statuses", "indexed"),
        *("whole_wall_s", "slices"),
    }
)


def added(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Two results of one part, of the same code, as one: counts are sums, all else is the later's.

    Raises:
        ValueError: They are of two commits, whose counts say nothing together.
    """
    if earlier["commit"] != later["commit"]:
        raise ValueError(
            f"Expected a slice of commit {earlier['commit']}, found one of {later['commit']}. "
            "Begin again with another file."
        )
    one, other = ({"slices": 1, **each} for each in (earlier, later))
    return {
        name: _sum(one.get(name), value) if name in _COUNTED else value
        for name, value in other.items()
    }


def slice_start(earlier: Mapping[str, Any] | None) -> int:
    """Kills or bundles that were done: the next slice has other seeds."""
    found = earlier or {}
    return int(found.get("kills", found.get("bundles", 0)))


def _sum(one: Any, other: Any) -> Any:
    if isinstance(other, dict):
        mine: dict[str, Any] = one or {}
        return {name: _sum(mine.get(name), other.get(name, 0)) for name in sorted({*mine, *other})}
    return round((one or 0) + other, 1)
