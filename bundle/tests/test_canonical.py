"""Strict and canonical JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3bundle.canonical import (
    JSON,
    MAX_DEPTH,
    StrictJsonError,
    canonical_json,
    parse_strict,
    plan_sha256,
    sha256_hex,
)
from k3bundle_testing import good_records, good_run_files

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)

REFUSED = {
    "nan": (b'{"a":[NaN]}', "$", "NaN"),
    "infinity": (b"[-Infinity]", "$", "-Infinity"),
    "overflow": (b"[1e999]", "$", "1e999"),
    "duplicate": (b'[{"a":1,"b":2,"a":1}]', "$", "'a' twice"),
    "deep_list": (b"[" * 100_000 + b"]" * 100_000, "$", "nested"),
    "deep_object": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "$", "nested"),
    "one_too_deep": (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "$" + "[0]" * 32, "nested"),
    "surrogate": (b'{"a":["\\udc00"]}', "$.a[0]", "lone surrogate"),
    "surrogate_key": (b'{"\\ud800":1}', "$.'\\ud800'", "lone surrogate"),
    "nul": (b'{"a":"x\\u0000"}', "$.a", "NUL"),
    "nul_key": (b'{"\\u0000":1}', "$.'\\x00'", "NUL"),
    "integer": (b"[9007199254740992]", "$[0]", "2^53"),
    "negative_integer": (b"[-9007199254740992]", "$[0]", "2^53"),
    "long_integer": (b"1" * 10_000, "$", "10000 digits"),
    "utf8": (b'["\xff"]', "$", "byte 2"),
    "utf16": ("[1]".encode("utf-16"), "$", "UTF-8"),
    "byte_order_mark": (b"\xef\xbb\xbf[]", "$", "JSON"),
    "empty": (b"", "$", "line 1 column 1"),
    "two_values": (b"1 2", "$", "column 3"),
    "comment": (b"[1, /* no */ 2]", "$", "column"),
    "trailing_comma": (b"[1,]", "$", "column"),
    "single_quotes": (b"['a']", "$", "column"),
    "control_character": (b'["\x01"]', "$", "column"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_parse_strict_refuses(name: str) -> None:
    data, where, why = REFUSED[name]
    with pytest.raises(StrictJsonError) as caught:
        parse_strict(data)
    assert caught.value.where == where
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b" [1, 2.5, -0.0, 1e-400]\r\n", [1, 2.5, -0.0, 0.0]),
        (b"9007199254740991", 2**53 - 1),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)),
    ],
)
def test_parse_strict_accepts(data: bytes, value: JSON) -> None:
    assert parse_strict(data) == value


@given(VALUES)
def test_canonical_json_is_read_back_and_stable(value: JSON) -> None:
    data = canonical_json(value)
    assert parse_strict(data) == value
    assert canonical_json(parse_strict(data)) == data


@given(st.binary(max_size=200))
def test_parse_strict_any_bytes_is_a_value_or_a_sentence(data: bytes) -> None:
    try:
        value = parse_strict(data)
    except StrictJsonError as error:
        assert error.why.startswith("Expected")
    else:
        assert parse_strict(canonical_json(value)) == value


def test_canonical_json_does_not_depend_on_key_order() -> None:
    assert canonical_json({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"a":{"c":2,"d":1},"b":1}'


def test_canonical_json_keeps_letters_of_every_script() -> None:
    assert canonical_json("\u00e9\u4e2d") == b'"\xc3\xa9\xe4\xb8\xad"'


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**53, "\ud800", "\0", json.loads("[" * 40 + "]" * 40)]
)
def test_canonical_json_refuses_what_parse_strict_refuses(value: JSON) -> None:
    with pytest.raises(StrictJsonError):
        canonical_json([value])


def test_plan_sha256_is_the_digest_of_the_plan_file() -> None:
    assert plan_sha256(good_records().plan) == sha256_hex(good_run_files()["plan.json"])
