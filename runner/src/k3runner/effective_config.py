"""The effective configuration of an engine as flat text, without what differs by chance. Pure."""

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

__all__ = ["flatten_config", "with_place_named"]

_VALUE_LIMIT = 2000


def flatten_config(found: object, volatile: Iterable[str]) -> dict[str, str]:
    """Flattens nested JSON to dotted keys.

    Args:
        found: Parsed JSON.
        volatile: Glob patterns of dotted keys to leave out.

    Returns:
        Dotted key -> value as JSON text, sorted by key. An empty object or list is a value.
    """
    flat: dict[str, str] = {}
    _flatten("", found, flat)
    patterns = tuple(volatile)
    return {
        key: flat[key]
        for key in sorted(flat)
        if not any(fnmatchcase(key, pattern) for pattern in patterns)
    }


def with_place_named(config: Mapping[str, str], place: str, name: str) -> dict[str, str]:
    """The configuration with a folder of one boot under a name that all boots share.

    Args:
        config: Dotted key -> value.
        place: Path of the folder, for example the home that an arm works in.
        name: What it is called instead, for example `<engine-home>`.
    """
    return {key: value.replace(place, name) for key, value in config.items()}


def _flatten(prefix: str, value: object, into: dict[str, str]) -> None:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), inner, into)
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for at, inner in enumerate(value):
            _flatten(f"{prefix}.{at}", inner, into)
    else:
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        into[prefix] = text[:_VALUE_LIMIT]
