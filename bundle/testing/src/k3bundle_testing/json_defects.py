"""Bundles whose digests and signature are right and whose JSON or records are not."""

from collections.abc import Callable
from typing import Final

from k3bundle import layout
from k3bundle_testing.defect import Defect, Files, edited, good_files, resealed

__all__ = ["JSON_DEFECTS"]

_LINE_1: Final = layout.REQUESTS + " line 1"


def _in_requests(old: bytes, new: bytes) -> Callable[[], Files]:
    return lambda: resealed(edited(good_files(), layout.REQUESTS, old, new))


def _in(name: str, old: bytes, new: bytes) -> Callable[[], Files]:
    return lambda: resealed(edited(good_files(), name, old, new))


def _malformed(name: str, old: bytes, new: bytes) -> Defect:
    return Defect(name, "json-malformed", layout.REQUESTS, _in_requests(old, new))


def _torn() -> Files:
    files = dict(good_files())
    files[layout.REQUESTS] = files[layout.REQUESTS][:-20]
    return resealed(files)


def _blank_line() -> Files:
    files = dict(good_files())
    files[layout.BOOTS] = files[layout.BOOTS] + b"\n"
    return resealed(files)


JSON_DEFECTS: Final = (
    _malformed("number_nan", b'"logprob":-0.25', b'"logprob":NaN'),
    _malformed("number_infinity", b'"logprob":-0.25', b'"logprob":-Infinity'),
    _malformed("number_overflow", b'"logprob":-0.25', b'"logprob":-1e999'),
    _malformed("integer_beyond_2_53", b'"sent_at_ns":0', b'"sent_at_ns":9007199254740993'),
    _malformed("integer_of_5000_digits", b'"sent_at_ns":0', b'"sent_at_ns":' + b"9" * 5000),
    _malformed("key_twice", b'"index":0', b'"index":0,"index":0'),
    _malformed("nesting_deep", b'"text":null', b'"text":' + b"[" * 20000 + b"]" * 20000),
    _malformed("lone_surrogate", b'"text":null', b'"text":"\\ud800"'),
    _malformed("nul_in_text", b'"text":null', b'"text":"a\\u0000b"'),
    _malformed("invalid_utf8", b'"text":null', b'"text":"\xff\xfe"'),
    _malformed("byte_order_mark", b'{"boot_id"', b'\xef\xbb\xbf{"boot_id"'),
    Defect("last_line_torn", "json-malformed", layout.REQUESTS, _torn),
    Defect("blank_line", "json-malformed", layout.BOOTS, _blank_line),
    Defect(
        "number_as_text",
        "record-invalid",
        _LINE_1 + " $.temperature",
        _in_requests(b'"temperature":0.0', b'"temperature":"nan"'),
    ),
    Defect(
        "duration_negative",
        "record-invalid",
        _LINE_1 + " $.ended_at_ns",
        _in_requests(b'"ended_at_ns":', b'"ended_at_ns":-'),
    ),
    Defect(
        "logprob_positive",
        "record-invalid",
        layout.REQUESTS,
        _in_requests(b'"logprob":-0.25', b'"logprob":0.25'),
    ),
    Defect(
        "field_unknown",
        "record-invalid",
        layout.PLAN + " $.winner",
        _in(layout.PLAN, b'"tier":"smoke"', b'"tier":"smoke","winner":"candidate"'),
    ),
    Defect(
        "commit_short",
        "record-invalid",
        layout.SUBJECT + " $.change.commit_sha",
        _in(layout.SUBJECT, b"c0ffee" + b"0" * 34, b"c0ffee0"),
    ),
    Defect(
        "repository_with_markup",
        "record-invalid",
        layout.SUBJECT + " $.change.repository",
        _in(layout.SUBJECT, b"example/engine", b"example/<b>engine</b>"),
    ),
    Defect(
        "schema_version_of_the_future",
        "schema-version",
        layout.PLAN,
        _in(layout.PLAN, b'"schema_version":"1"', b'"schema_version":"2"'),
    ),
    Defect(
        "schema_version_not_text",
        "schema-version",
        layout.PLAN,
        _in(layout.PLAN, b'"schema_version":"1"', b'"schema_version":["1"]'),
    ),
)
