"""Canonical JSON, strict JSON and digests: one value has one byte string, and one digest.

What `canonical_json` writes, `parse_strict` accepts; the other way round is not true, because a
reader must also take JSON that another program wrote with other white space.
"""

from __future__ import annotations

import hashlib
import json
from typing import Final, NoReturn, TypeAlias, cast

from k3bundle.plan import Plan
from k3bundle.record import MAX_SAFE_INTEGER, Record

__all__ = [
    "JSON",
    "MAX_DEPTH",
    "StrictJsonError",
    "canonical_json",
    "parse_strict",
    "plan_sha256",
    "sha256_hex",
]

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""A JSON value as Python holds it."""

MAX_DEPTH: Final = 32
"""Deepest nesting of arrays and objects that is read or written."""

_LONGEST_SAFE_INTEGER: Final = len(str(-MAX_SAFE_INTEGER))


class StrictJsonError(ValueError):
    """A value is not JSON that every reader understands alike."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        """JSON path of the bad value, for example `$.cells[3].cell_id`."""
        self.why = why
        """What was expected and found, in a sentence."""


def canonical_json(value: Record | JSON) -> bytes:
    """Encode a value in its one canonical form: UTF-8, sorted keys, no white space.

    Args:
        value: A record (written by alias, defaults included) or a plain JSON value.

    Returns:
        The bytes, without a final newline.

    Raises:
        StrictJsonError: The value holds something that `parse_strict` would refuse.
    """
    plain = (
        cast("JSON", value.model_dump(mode="json", by_alias=True))
        if isinstance(value, Record)
        else value
    )
    _refuse_unsafe(plain)
    return json.dumps(
        plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def parse_strict(data: bytes) -> JSON:
    """Decode JSON and refuse everything that two readers could understand differently.

    Args:
        data: UTF-8 bytes of one JSON value.

    Returns:
        The value.

    Raises:
        StrictJsonError: Invalid UTF-8 or JSON, a duplicate key, NaN or infinity, nesting deeper
            than `MAX_DEPTH`, a lone surrogate or NUL in a string, or an integer beyond 2^53 - 1.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJsonError("$", f"Expected UTF-8, found byte {error.start} invalid.") from None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object_without_duplicates,
            parse_int=_safe_integer,
            parse_float=_finite_float,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise StrictJsonError(
            "$",
            f"Expected JSON, found at line {error.lineno} column {error.colno}: {error.msg}.",
        ) from None
    except RecursionError:
        raise StrictJsonError("$", _too_deep()) from None
    _refuse_unsafe(value)
    return cast("JSON", value)


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of bytes as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def plan_sha256(plan: Plan) -> str:
    """The digest of a plan: SHA-256 of its canonical JSON."""
    return sha256_hex(canonical_json(plan))


def _too_deep() -> str:
    return f"Expected at most {MAX_DEPTH} nested arrays and objects, found more."


def _object_without_duplicates(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise StrictJsonError("$", f"Expected unique keys, found {twice[:80]!a} twice.")
    return result


def _safe_integer(digits: str) -> int:
    if len(digits) > _LONGEST_SAFE_INTEGER:
        raise StrictJsonError("$", f"Expected |integer| < 2^53, found {len(digits)} digits.")
    return int(digits)


def _finite_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise StrictJsonError("$", f"Expected a finite number, found {digits[:40]}.")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJsonError("$", f"Expected a finite number, found {name}.")


def _refuse_unsafe(value: JSON) -> None:
    problem = _problem(value, 0)
    if problem is not None:
        steps, why = problem
        raise StrictJsonError("$" + "".join(reversed(steps)), why)


def _problem(value: JSON, depth: int) -> tuple[list[str], str] | None:
    """Find the first unsafe value; the steps to it come innermost first."""
    if isinstance(value, str):
        why = _string_problem(value)
    elif isinstance(value, bool) or value is None:
        why = None
    elif isinstance(value, int):
        why = None if abs(value) <= MAX_SAFE_INTEGER else "Expected |integer| < 2^53, found more."
    elif isinstance(value, float):
        finite = value - value == 0
        why = None if finite else f"Expected a finite number, found {value}."
    elif depth >= MAX_DEPTH:
        why = _too_deep()
    else:
        return _container_problem(value, depth)
    return None if why is None else ([], why)


def _container_problem(
    value: list[JSON] | dict[str, JSON], depth: int
) -> tuple[list[str], str] | None:
    if isinstance(value, dict):
        for key, item in value.items():
            why = _string_problem(key)
            if why is not None:
                return ([f".{key[:80]!a}"], why)
            problem = _problem(item, depth + 1)
            if problem is not None:
                problem[0].append(f".{key[:80]}" if key.isascii() else f"[{key[:80]!a}]")
                return problem
        return None
    for index, item in enumerate(value):
        problem = _problem(item, depth + 1)
        if problem is not None:
            problem[0].append(f"[{index}]")
            return problem
    return None


def _string_problem(text: str) -> str | None:
    if "\0" in text:
        return "Expected text, found a NUL character."
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "Expected Unicode text, found a lone surrogate."
    return None
