"""Schemas and texts built to hang or crash a verifier."""

import time
from typing import Any

import pytest

from k3bundle.derive.json_check import mismatch, schema_refusal

OBJECT: dict[str, Any] = {
    "type": "object",
    "required": ["ready", "marks"],
    "additionalProperties": False,
    "properties": {
        "ready": {"type": "boolean"},
        "marks": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 1, "maxItems": 3},
        "name": {"type": "string", "pattern": "^[a-z]{2}[0-9]{1,4}$"},
    },
}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"ready": true, "marks": [1]}', None),
        ('{"ready": true, "marks": [1, 2, 1], "name": "ab12"}', None),
        ('{"ready": true}', "'marks' is a required property"),
        ('{"ready": 1, "marks": [1]}', "is not of type 'boolean'"),
        ('{"ready": true, "marks": [3]}', "is not one of"),
        ('{"ready": true, "marks": [1], "extra": 0}', "Additional properties"),
        ('{"ready": true, "marks": [1], "name": "ab"}', "does not match"),
        ("", "is not JSON"),
        ('{"ready": true, "marks": [1]} trailing', "is not JSON"),
        ("[" * 3_000, "is not JSON"),
        ("[" * 100 + "]" * 100, "nested deeper than 64"),
        ("9" * 6_000, "is not JSON"),
        ('"\ud800"', "is not of type 'object'"),
        ("[" + "1," * 9_000 + "1]", "too large to check"),
    ],
)
def test_mismatch_says_what_is_wrong_with_a_text(text: str, words: str | None) -> None:
    assert schema_refusal(OBJECT) is None
    found = mismatch(text, OBJECT)
    assert found is None if words is None else words in str(found)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "https://example.invalid/schema.json"}, "$ref"),
        ({"properties": {"a": {"$ref": "#"}}}, "$ref"),
        ({"$dynamicRef": "#meta"}, "$dynamicRef"),
        ({"$id": "https://example.invalid/"}, "$id"),
        ({"items": {"unevaluatedItems": False}}, "unevaluatedItems"),
        ({"uniqueItems": True}, "uniqueItems"),
        ({"patternProperties": {"^(a+)+$": {}}}, "patternProperties"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "dialect"),
        ({"pattern": "^(a+)+$"}, "pattern"),
        ({"pattern": "^a*a*a*b$"}, "pattern"),
        ({"pattern": "a+"}, "pattern"),
        ({"pattern": "^[z-a]$"}, "pattern"),
        ({"pattern": 5}, "pattern"),
        ({"type": "banana"}, "not a JSON Schema"),
        ({"minimum": "low"}, "not a JSON Schema"),
        ({"items": 7}, "not a JSON Schema"),
        ({"anyOf": [{}] * 300}, "more than 256 subschemas"),
        ({"description": "x" * 30_000}, "characters"),
        ({"const": float("nan")}, "not plain JSON"),
        (nested(30), "nested deeper than 24"),
        (nested(5_000), "not plain JSON"),
        (None, "no schema"),
    ],
)
def test_schema_refusal_names_what_is_outside_the_subset(
    schema: dict[str, Any] | None, words: str
) -> None:
    assert words in str(schema_refusal(schema))


@pytest.mark.parametrize("pattern", ["^[a-z]+$", "^\\d{4}-\\d{2}$", "^k3_[A-Za-z0-9]{1,9}\\.x$"])
def test_schema_refusal_takes_plain_patterns(pattern: str) -> None:
    assert schema_refusal({"type": "string", "pattern": pattern}) is None


def test_the_worst_accepted_work_ends_soon() -> None:
    patterns = [{"pattern": "^[a-z]+" + "[a-z]{99}" * 9 + "z$"}] * 4
    assert schema_refusal({"allOf": patterns}) is None
    begin = time.process_time()
    found = mismatch('"' + "a" * 1_200 + '"', {"allOf": patterns})
    assert "does not" in str(found)
    assert time.process_time() - begin < 2.0
