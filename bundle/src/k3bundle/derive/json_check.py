"""Whether a text is JSON that satisfies a schema, with bounded work for hostile schemas.

The schema comes from a plan inside a bundle and the text from an engine, so both may be built to
hang a verifier. Only the keywords in `ALLOWED_KEYWORDS` are taken: no reference of any kind, no
keyword whose cost grows faster than schema times text. A `pattern` may hold literals, classes and
fixed repeats between `^` and `$` with one variable repeat, which cannot backtrack far. A schema
outside this subset is refused with a sentence, never skipped.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError

from k3bundle.derive.sentences import quote

__all__ = ["ALLOWED_KEYWORDS", "checking_cost", "mismatch", "schema_refusal"]

_ANNOTATIONS: Final = frozenset(
    {"$schema", "$comment", "title", "description", "default", "examples", "format"}
)
_ONE_SCHEMA: Final = frozenset({"additionalProperties", "items", "not"})
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAPS: Final = frozenset({"properties"})
ALLOWED_KEYWORDS: Final = (
    _ANNOTATIONS
    | _ONE_SCHEMA
    | _SCHEMA_LISTS
    | _SCHEMA_MAPS
    | {"type", "enum", "const", "required", "pattern", "minLength", "maxLength"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minItems", "maxItems", "minProperties", "maxProperties"}
)
"""Keywords of JSON Schema 2020-12 that a planned schema may use."""

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_MOST_SUBSCHEMAS: Final = 256
_DEEPEST: Final = 24
_LONGEST_SCHEMA: Final = 20_000
_LONGEST_PATTERN: Final = 100
_DEEPEST_VALUE: Final = 64
_MOST_WORK: Final = 50_000
"""Cost of one text, as `checking_cost` counts it."""

_ATOM: Final = r"(?:\\[dwsDWS.\-/]|\[\^?[A-Za-z0-9_ \-]{1,80}\]|[A-Za-z0-9_ :,@/\-])"
_FIXED: Final = r"(?:\{[0-9]{1,2}\})?"
_VARIABLE: Final = r"(?:[+*?]|\{[0-9]{1,3},[0-9]{0,3}\})"
_SAFE_PATTERN: Final = re.compile(
    rf"\^(?:{_ATOM}{_FIXED})*(?:{_ATOM}{_VARIABLE})?(?:{_ATOM}{_FIXED})*\$"
)


def schema_refusal(schema: dict[str, Any] | None) -> str | None:
    """Say why a schema cannot be checked; None when it can.

    Args:
        schema: The schema of the plan; None when the plan has none.
    """
    if schema is None:
        return "the plan gives no schema"
    refusal = _size_refusal(schema)
    if refusal is not None:
        return refusal
    for subschema, _ in _subschemas(schema):
        refusal = _keyword_refusal(subschema)
        if refusal is not None:
            return refusal
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"it is not a JSON Schema: {quote(error.message)}"
    return None


def _size_refusal(schema: dict[str, Any]) -> str | None:
    try:
        length = len(json.dumps(schema, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return "it is not plain JSON"
    if length > _LONGEST_SCHEMA:
        return f"it has {length} characters, more than {_LONGEST_SCHEMA}"
    for count, (_, depth) in enumerate(_subschemas(schema)):
        if count >= _MOST_SUBSCHEMAS:
            return f"it has more than {_MOST_SUBSCHEMAS} subschemas"
        if depth > _DEEPEST:
            return f"it is nested deeper than {_DEEPEST} levels"
    return None


def checking_cost(text: str, schema: dict[str, Any]) -> int:
    """An upper bound of the work of `mismatch`: subschema visits and pattern steps."""
    subschemas = [item for item, _ in _subschemas(schema)]
    values = 1 + sum(text.count(mark) for mark in ",[{")
    patterns = sum(
        len(str(s["pattern"])) for s in subschemas if isinstance(s, dict) and "pattern" in s
    )
    return values * len(subschemas) + len(text) * patterns // 10


def mismatch(text: str, schema: dict[str, Any]) -> str | None:
    """Say why a text does not satisfy a schema; None when it does.

    Args:
        text: What the engine generated.
        schema: A schema that `schema_refusal` does not refuse.
    """
    cost = checking_cost(text, schema)
    if cost > _MOST_WORK:
        return f"is too large to check: {cost} steps, more than {_MOST_WORK}"
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {quote(str(error))}"
    if _is_deep(value):
        return f"is nested deeper than {_DEEPEST_VALUE} levels"
    wrong = _first_error(value, schema)
    return None if wrong is None else f"does not satisfy the schema: {quote(wrong.message)}"


def _first_error(value: object, schema: dict[str, Any]) -> ValidationError | None:
    errors = Draft202012Validator(schema).iter_errors(value)
    return next(iter(errors), None)


def _subschemas(schema: object, depth: int = 0) -> Iterator[tuple[object, int]]:
    """Every subschema before those inside it, so that a caller can stop at a bad one."""
    yield schema, depth
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return
    for keyword, value in schema.items():
        inner: list[object] = []
        if keyword in _ONE_SCHEMA:
            inner = [value]
        elif keyword in _SCHEMA_LISTS and isinstance(value, list):
            inner = value
        elif keyword in _SCHEMA_MAPS and isinstance(value, dict):
            inner = list(value.values())
        for item in inner:
            yield from _subschemas(item, depth + 1)


def _keyword_refusal(subschema: object) -> str | None:
    if not isinstance(subschema, dict):
        # true and false are schemas; anything else is left to the check against the metaschema.
        return None
    for keyword, value in subschema.items():
        if keyword not in ALLOWED_KEYWORDS:
            return f"its keyword {quote(str(keyword))!a} is outside the subset that is checked"
        if keyword == "$schema" and value != _DIALECT:
            return f"its dialect {quote(str(value))!a} is not {_DIALECT}"
        if keyword == "pattern" and not _is_safe_pattern(value):
            return f"its pattern {quote(str(value))!a} is outside the subset that is checked"
    return None


def _is_safe_pattern(pattern: object) -> bool:
    if not isinstance(pattern, str) or len(pattern) > _LONGEST_PATTERN:
        return False
    if _SAFE_PATTERN.fullmatch(pattern) is None:
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST_VALUE):
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = inner
    return bool(level)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
