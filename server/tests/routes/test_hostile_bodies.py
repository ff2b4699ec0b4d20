"""Whatever is sent as a request body: a 4xx with a sentence, never a 5xx."""

import asyncio
import json
from functools import cache
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3server_testing.example_document import EXAMPLE_FINGERPRINT, example_document
from k3server_testing.registry import PUBLIC_URL, Registry

ROUTES = ("/api/v1/submissions", "/api/v1/nonces")
CLAIM: dict[str, Any] = {
    "blob_sha256": "ab" * 32,
    "plan_sha256": "ab" * 32,
    "signer": EXAMPLE_FINGERPRINT,
    **example_document().manifest.change.model_dump(),
}
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@cache
def app() -> FastAPI:
    """One application for all examples; none of them can change what another one sees."""
    return Registry().app()


def post(route: str, body: bytes) -> tuple[int, dict[str, Any]]:
    async def run() -> tuple[int, dict[str, Any]]:
        transport = httpx.ASGITransport(app())
        async with httpx.AsyncClient(transport=transport, base_url=PUBLIC_URL) as client:
            answer = await client.post(route, content=body)
            return answer.status_code, answer.json()

    return asyncio.run(run())


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": Infinity}',
        b'{"a": "\\ud800"}',
        b'{"a": "\\u0000"}',
        b'{"a": 123456789012345678901234567890}',
        b'{"a": 1, "a": 2}',
        b"[" * 30_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"pull_request": true}',
        b'{"pull_request": 7.0}',
        b"9" * 5_000,
    ],
    ids=lambda body: repr(body[:24]),
)
def test_post_trick_is_a_sentence(route: str, body: bytes) -> None:
    status, problem = post(route, body)
    assert status in {400, 422}
    assert problem["detail"].startswith(("Expected", "$")) or problem["findings"]
    assert problem["status"] == status


@pytest.mark.parametrize("route", ROUTES)
def test_post_too_large_is_413(route: str) -> None:
    status, problem = post(route, b" " * (64 * 1024 + 1))
    assert status == 413
    assert "65536" in problem["detail"]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    route=st.sampled_from(ROUTES),
    changes=st.dictionaries(st.sampled_from(sorted(CLAIM)) | st.text(max_size=8), JSON_VALUES),
    dropped=st.sets(st.sampled_from(sorted(CLAIM))),
)
def test_post_changed_claim_never_breaks(
    route: str, changes: dict[str, Any], dropped: set[str]
) -> None:
    value = {key: item for key, item in CLAIM.items() if key not in dropped} | changes
    status, problem = post(route, json.dumps(value).encode())
    assert status in {201, 400, 404, 422}
    assert status == 201 or problem["detail"]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(route=st.sampled_from(ROUTES), body=st.binary(max_size=200))
def test_post_bytes_never_breaks(route: str, body: bytes) -> None:
    status, problem = post(route, body)
    assert status in {400, 422}
    assert problem["title"]
