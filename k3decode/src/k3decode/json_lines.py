"""Files of JSON lines that commands write and others read: what is wrong in one is a sentence."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeAlias

__all__ = ["Fields", "JsonLinesError", "read_json_lines"]

Fields: TypeAlias = Mapping[str, type | UnionType]
"""Fields that a line must have, and what they hold."""

_SHOWN_CHARACTERS = 40


class JsonLinesError(ValueError):
    """A file of JSON lines cannot be read, or a line of it is not what was expected."""


def read_json_lines(
    path: Path,
    fields: Fields,
    next_step: str,
    *,
    by_kind: Mapping[str, Fields] | None = None,
) -> list[dict[str, Any]]:
    """Read a file of one JSON object per line; empty lines do not count.

    Args:
        path: the file.
        fields: of every line; a line may have more.
        next_step: what a person can do about a bad file.
        by_kind: more fields of lines of a kind, where `schema` is k3decode.KIND/VERSION.

    Raises:
        JsonLinesError: no such file, or a line that is no JSON object with these fields; the
            sentence names file and line.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise JsonLinesError(
            f"{path}: expected a file of JSON lines, found {error.strerror}: {next_step}"
        ) from None
    except UnicodeDecodeError:
        raise JsonLinesError(
            f"{path}: expected a file of JSON lines, found bytes that are no text: {next_step}"
        ) from None
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                records.append(_record(line, fields, by_kind or {}))
            except JsonLinesError as error:
                raise JsonLinesError(f"{path}: line {number}: {error}: {next_step}") from None
    return records


def _record(line: str, fields: Fields, by_kind: Mapping[str, Fields]) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        shown = line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}..."
        raise JsonLinesError(f"expected a JSON object, found {shown!r}")
    kind = str(record.get("schema")).removeprefix("k3decode.").partition("/")[0]
    for name, held in (*fields.items(), *by_kind.get(kind, {}).items()):
        word = held.__name__ if isinstance(held, type) else str(held)
        if name not in record:
            names = ", ".join(f"'{one}'" for one in sorted(record)) or "an empty object"
            raise JsonLinesError(f"expected a field '{name}' ({word}), found {names}")
        if not isinstance(record[name], held):
            raise JsonLinesError(f"expected '{name}' to be {word}, found {record[name]!r}")
    return record
