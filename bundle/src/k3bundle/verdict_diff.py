"""Compares a stored verdict with the one that its records give."""

import math
from collections.abc import Iterator
from typing import Final

from k3bundle import layout
from k3bundle.canonical import JSON
from k3bundle.finding import Finding, FindingCode

__all__ = ["RELATIVE_TOLERANCE", "verdict_differences"]

RELATIVE_TOLERANCE: Final = 1e-9
"""Relative difference of two floats that still counts as equal: another machine's rounding."""

_HINT: Final = "The stored verdict is never trusted; seal the run again to derive it anew."


def verdict_differences(derived: JSON, stored: JSON, path: str = "$") -> Iterator[Finding]:
    """Yield a finding for each field in which two verdicts differ.

    Args:
        derived: The verdict derived from the records, as JSON.
        stored: The verdict of the bundle, as JSON of the same record type.
        path: JSON path of the two values.

    Yields:
        `number-mismatch` for numbers, `verdict-mismatch` for everything else.
    """
    if isinstance(derived, dict) and isinstance(stored, dict):
        # Plain fields come before lists, so that a different status is listed whatever follows.
        keys = derived.keys() | stored.keys()
        for key in sorted(keys, key=lambda key: (isinstance(derived.get(key), list | dict), key)):
            here = f"{path}.{_shown(key)[1:-1]}"
            if key in derived and key in stored:
                yield from verdict_differences(derived[key], stored[key], here)
            else:
                yield _mismatch("verdict-mismatch", here, derived.get(key), stored.get(key))
    elif isinstance(derived, list) and isinstance(stored, list):
        if len(derived) != len(stored):
            why = f"Expected {len(derived)} entries, found {len(stored)}."
            yield Finding("verdict-mismatch", f"{layout.VERDICT} {path}", why, _HINT)
            return
        for index, (one, other) in enumerate(zip(derived, stored, strict=True)):
            yield from verdict_differences(one, other, f"{path}[{index}]")
    elif _is_number(derived) and _is_number(stored):
        if not _close(derived, stored):
            yield _mismatch("number-mismatch", path, derived, stored)
    elif type(derived) is not type(stored) or derived != stored:
        numbers = _is_number(derived) or _is_number(stored)
        yield _mismatch("number-mismatch" if numbers else "verdict-mismatch", path, derived, stored)


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _close(derived: JSON, stored: JSON) -> bool:
    if isinstance(derived, int) and isinstance(stored, int):
        return derived == stored
    if isinstance(derived, int | float) and isinstance(stored, int | float):
        return math.isclose(derived, stored, rel_tol=RELATIVE_TOLERANCE)
    return False


def _mismatch(code: FindingCode, path: str, derived: JSON, stored: JSON) -> Finding:
    why = f"Expected {_shown(derived)} as derived from the records, found {_shown(stored)} stored."
    return Finding(code, f"{layout.VERDICT} {path}", why, _HINT)


def _shown(value: JSON) -> str:
    return ascii(value)[:120]
