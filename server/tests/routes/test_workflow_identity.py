"""Workflows of GitHub Actions as contributors: what their tokens prove, and what they do not."""

import json
import math
from collections.abc import Iterator
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from k3bundle.canonical import sha256_hex
from k3server.adapters.issuer_keys import HttpIssuer
from k3server.adapters.sql.moderation import SqlModeration
from k3server.document import SubmissionDocument
from k3server.errors import MachineError
from k3server_testing.example_document import example_document
from k3server_testing.fake_issuer import FakeIssuer
from k3server_testing.registry import PUBLIC_URL, Registry

OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_FINGERPRINT = "SHA256:" + "B" * 43


@pytest.fixture(scope="module")
def issuer() -> Iterator[FakeIssuer]:
    with FakeIssuer() as issuer:
        yield issuer


@pytest.fixture
def registry(registry: Registry, issuer: FakeIssuer) -> Registry:
    issuer.status, issuer.key_id, issuer.asked = 200, "first", 0
    registry.issuer = HttpIssuer(issuer.address)
    return registry


def run(number: int, **changes: Any) -> SubmissionDocument:
    return example_document(run_id=f"{number:032x}").model_copy(update=changes)


def audience(document: SubmissionDocument) -> str:
    return f"{PUBLIC_URL}/api/v1/blobs/{sha256_hex(document.bundle_sha256.encode())}"


def good(registry: Registry, issuer: FakeIssuer, document: SubmissionDocument) -> dict[str, Any]:
    return issuer.claims(audience(document), registry.clock.now().timestamp())


def refused(answer: httpx.Response) -> tuple[int, str]:
    (finding,) = answer.json()["findings"]
    assert finding["why"].startswith("Expected ")
    assert finding["hint"].endswith(".")
    return answer.status_code, finding["code"]


async def test_workflow_is_who_sends_and_raises_no_trust(
    client: httpx.AsyncClient, registry: Registry, issuer: FakeIssuer
) -> None:
    document = run(1)
    token = issuer.token(good(registry, issuer, document))
    answer = await registry.submit(client, document, token=token)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert (body["identity"], body["trust"], body["space"]) == (
        "actions:example/engine",
        "self-reported",
        "main",
    )
    # A workflow that sends what is there already takes nothing over.
    claims = {
        **good(registry, issuer, document),
        "repository": "mallory/x",
        "repository_owner": "mallory",
    }
    again = await registry.submit(client, document, token=issuer.token(claims))
    assert again.json()["identity"] == "actions:example/engine"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"iss": "https://token.actions.githubusercontent.com"}, "identity-token-issuer"),
        ({"iss": None}, "identity-token-issuer"),
        ({"aud": PUBLIC_URL}, "identity-token-audience"),
        ({"aud": ["x", "y"]}, "identity-token-audience"),
        ({"aud": None}, "identity-token-audience"),
        ({"exp": -100}, "identity-token-expired"),
        ({"nbf": 100}, "identity-token-not-yet"),
        ({"iat": 100, "nbf": 0}, "identity-token-not-yet"),
        ({"exp": 7200}, "identity-token-claims"),
        ({"exp": None}, "identity-token-claims"),
        ({"iat": "now"}, "identity-token-claims"),
        ({"exp": 10**400}, "identity-token-claims"),
        ({"exp": math.nan}, "identity-token-claims"),
        ({"iat": -math.inf}, "identity-token-claims"),
        ({"repository": None}, "identity-token-claims"),
        ({"repository": "no-owner"}, "identity-token-claims"),
        ({"repository": "a/b/c"}, "identity-token-claims"),
        ({"repository": "a/b", "repository_owner": "c"}, "identity-token-claims"),
        ({"repository_owner": None}, "identity-token-claims"),
    ],
)
async def test_token_that_says_something_else_is_refused_with_its_code(
    client: httpx.AsyncClient,
    registry: Registry,
    issuer: FakeIssuer,
    changes: dict[str, Any],
    code: str,
) -> None:
    document = run(1)
    claims = good(registry, issuer, document)
    now = registry.clock.now().timestamp()
    for name, value in changes.items():
        at = name in ("exp", "nbf", "iat") and isinstance(value, int) and value < 10**9
        claims[name] = now + value if at else value
        if value is None:
            del claims[name]
    try:
        token = issuer.token(claims)
    except TypeError:
        # The library makes no token with such a claim, so it is signed as bytes.
        token = jwt.api_jws.encode(
            json.dumps(claims).encode(), issuer.key, "RS256", headers={"kid": issuer.key_id}
        )
    assert refused(await registry.submit(client, document, token=token)) == (401, code)
    assert registry.verifier.asked == []


async def test_token_of_another_archive_is_refused(
    client: httpx.AsyncClient, registry: Registry, issuer: FakeIssuer
) -> None:
    token = issuer.token(good(registry, issuer, run(1)))
    answer = await registry.submit(client, run(2), token=token)
    assert refused(answer) == (401, "identity-token-audience")


async def test_token_that_github_did_not_sign_is_refused(
    client: httpx.AsyncClient, registry: Registry, issuer: FakeIssuer
) -> None:
    document = run(1)
    claims = good(registry, issuer, document)
    forged = {
        "another key": issuer.token(claims, key=OTHER_KEY),
        "an unknown key": issuer.token(claims, key=OTHER_KEY, headers={"kid": "made-up"}),
        "a cut signature": issuer.token(claims)[:-8] + "AAAAAAAA",
    }
    for name, token in forged.items():
        answer = await registry.submit(client, document, token=token)
        assert refused(answer) == (401, "identity-token-signature"), name
    # The public key as a shared secret, no signature, no name of a key: other kinds of token.
    unreadable = [
        issuer.token(claims, key="x" * 32, algorithm="HS256"),
        issuer.token(claims, headers={}),
        "eyJhbGciOiJub25lIn0.e30.AAAA",
        "aaaa.bbbb.cccc",
    ]
    for token in unreadable:
        answer = await registry.submit(client, document, token=token)
        assert refused(answer) == (401, "identity-token-unreadable")


async def test_keys_are_asked_for_once_and_again_when_they_are_new(
    registry: Registry, issuer: FakeIssuer
) -> None:
    seconds = [0.0]
    registry.issuer = HttpIssuer(issuer.address, now=lambda: seconds[0])
    statuses = []
    async with registry.client() as client:
        for number, key_id in enumerate(["first", "first", "second", "second", "second"]):
            issuer.key_id = key_id
            # Looked for again after half a minute at the earliest, whatever names tokens give.
            seconds[0] += 14.0
            token = issuer.token(good(registry, issuer, run(number)))
            statuses.append((await registry.submit(client, run(number), token=token)).status_code)
    assert statuses == [201, 201, 401, 201, 201]
    assert issuer.asked == 2


@pytest.mark.parametrize("status", [404, 500, 301])
async def test_issuer_that_gives_no_keys_is_503_and_asked_once(
    client: httpx.AsyncClient, registry: Registry, issuer: FakeIssuer, status: int
) -> None:
    issuer.status = status
    document = run(1)
    token = issuer.token(good(registry, issuer, document))
    for _ in range(3):
        answer = await registry.submit(client, document, token=token)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert issuer.asked == 1


async def test_registry_that_was_told_of_no_issuer_takes_none(
    registry: Registry, issuer: FakeIssuer
) -> None:
    registry.issuer = None
    async with registry.client() as client:
        token = issuer.token(good(registry, issuer, run(1)))
        answer = await registry.submit(client, run(1), token=token)
    assert refused(answer) == (401, "identity-token-not-accepted")
    assert issuer.asked == 0


@pytest.mark.parametrize("banned", ["actions:example/engine", "github:example"])
async def test_banned_workflow_and_the_workflows_of_a_banned_account_are_refused(
    client: httpx.AsyncClient, registry: Registry, issuer: FakeIssuer, banned: str
) -> None:
    SqlModeration(registry.database).decide(
        "ban", banned, actor="operator:x", reason="Forged.", at=registry.clock.now()
    )
    token = issuer.token(good(registry, issuer, run(1)))
    answer = await registry.submit(client, run(1), token=token)
    assert answer.status_code == 403
    assert "Forged." in answer.json()["detail"]


async def test_workflows_of_one_owner_reproduce_nothing_of_each_other(
    client: httpx.AsyncClient, registry: Registry, issuer: FakeIssuer
) -> None:
    async def send(document: SubmissionDocument, repository: str) -> str:
        owner = repository.partition("/")[0]
        claims = {
            **good(registry, issuer, document),
            "repository": repository,
            "repository_owner": owner,
        }
        answer = await registry.submit(client, document, token=issuer.token(claims))
        trust: str = answer.json()["trust"]
        return trust

    other = {"signer_fingerprint": OTHER_FINGERPRINT}
    assert await send(run(1), "alice/one") == "self-reported"
    assert await send(run(2, **other), "alice/two") == "self-reported"
    assert await send(run(3, **other), "bob/one") == "reproduced"


@pytest.mark.parametrize("address", ["http://issuer.example", "ftp://127.0.0.1", "issuer", ""])
def test_issuer_that_is_not_asked_over_https_is_refused(address: str) -> None:
    with pytest.raises(MachineError, match="--github-actions-issuer"):
        HttpIssuer(address)
