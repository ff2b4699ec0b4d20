"""Which JSON Schemas a plan may ask answers to satisfy.

A schema comes from the bundle, so it is as little trusted as the rest: patterns can take for ever
to match and references can point anywhere. Only plain keywords are taken.
"""

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["schema_problems"]

_NESTED_MAPPING: Final = "properties"
_NESTED: Final = frozenset({"items", "additionalProperties"})
_ALLOWED: Final = frozenset(
    {
        "additionalProperties",
        "const",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "properties",
        "required",
        "title",
        "type",
    }
)


def schema_problems(schema: Any, path: str = "$") -> Iterator[str]:
    """Yield a sentence for each part of a JSON Schema that is not taken.

    Args:
        schema: The schema, as parsed JSON of limited depth.
        path: JSON path of the schema, for the sentences.
    """
    if isinstance(schema, bool) and path != "$":
        return
    if not isinstance(schema, dict):
        yield f"Expected a JSON Schema at {path}, found {type(schema).__name__}."
        return
    for keyword, value in schema.items():
        if keyword not in _ALLOWED:
            shown = ascii(keyword)[:60]
            yield f"Expected only plain JSON Schema keywords at {path}, found {shown}."
        elif keyword in _NESTED:
            yield from schema_problems(value, f"{path}.{keyword}")
        elif keyword == _NESTED_MAPPING:
            if not isinstance(value, dict):
                yield f"Expected an object at {path}.properties, found {type(value).__name__}."
                continue
            for name, nested in value.items():
                yield from schema_problems(nested, f"{path}.properties.{ascii(name)[1:-1][:60]}")
