"""Which spills are known and why; everything else that spills is an error."""

import tomllib
from collections.abc import Collection
from pathlib import Path

__all__ = ["Place", "SpillAllowanceError", "read_allowed_spills", "spill_problems"]

Place = tuple[str, str, str]
"""Op, variant, architecture."""

_FILE = Path(__file__).with_name("allowed_spills.toml")
_FIELDS = ("op", "variant", "architecture", "reason")


class SpillAllowanceError(ValueError):
    """The list of allowed spills cannot be read."""


def read_allowed_spills(path: Path = _FILE) -> dict[Place, str]:
    """Read the list: place -> reason.

    Raises:
        SpillAllowanceError: an entry lacks a field or its reason is empty.
    """
    entries = tomllib.loads(path.read_text()).get("allowed", [])
    allowed = {}
    for entry in entries:
        if set(entry) != set(_FIELDS) or not all(str(entry[name]).strip() for name in _FIELDS):
            raise SpillAllowanceError(
                f"{path}: expected entries of {', '.join(_FIELDS)}, found {entry}: say why "
                "it spills"
            )
        allowed[entry["op"], entry["variant"], entry["architecture"]] = str(entry["reason"])
    return allowed


def spill_problems(
    spilling: Collection[Place], compiled: Collection[Place], allowed: Collection[Place]
) -> list[str]:
    """What is wrong with a set of compiled variants, one sentence each."""
    unknown = [
        f"{' '.join(place)} spills registers: give it fewer values per thread, or list it in "
        f"{_FILE.name} with the reason"
        for place in sorted(set(spilling) - set(allowed))
    ]
    outdated = [
        f"{' '.join(place)} is listed in {_FILE.name} and does not spill: remove the entry"
        for place in sorted((set(allowed) & set(compiled)) - set(spilling))
    ]
    return unknown + outdated
