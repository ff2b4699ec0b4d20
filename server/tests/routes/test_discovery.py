from collections.abc import Iterator
from contextlib import closing
from xml.etree import ElementTree

import httpx
import pytest

from k3bundle.subject import ChangeUnderTest
from k3server.adapters.sql.moderation import SqlModeration
from k3server.document import SubmissionDocument
from k3server_testing.example_document import EXAMPLE_FINGERPRINT, example_document
from k3server_testing.example_verdict import example_verdict
from k3server_testing.registry import PUBLIC_URL, Registry

ATOM = "{http://www.w3.org/2005/Atom}"
CHANGE = ChangeUnderTest(repository="Example/Engine", pull_request=7, commit_sha="ab" * 20)
OTHER = ChangeUnderTest(repository="example/other", pull_request=8, commit_sha="cd" * 20)
ONE = example_document(run_id="1" * 32, change=CHANGE)
TWO = example_document(example_verdict("FAIL"), run_id="2" * 32, change=OTHER)


def parsed(text: str) -> ElementTree.Element:
    """A document of our own, so that nothing hostile is parsed."""
    return ElementTree.fromstring(text)  # noqa: S314


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()
    registry.limit(known_signers=frozenset({EXAMPLE_FINGERPRINT}))
    with closing(registry.database):
        yield registry


@pytest.fixture
async def filled(client: httpx.AsyncClient, registry: Registry) -> httpx.AsyncClient:
    for document in (ONE, TWO):
        await registry.submit(client, document)
    return client


async def found(client: httpx.AsyncClient, query: str) -> list[SubmissionDocument]:
    page = await client.get("/search", params={"q": query})
    assert page.status_code == 200
    return [each for each in (ONE, TWO) if f"/submissions/{each.bundle_sha256}" in page.text]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("example/ENGINE", [ONE]),
        ("example/engine#7", [ONE]),
        ("example/engine#8", []),
        ("abababa", [ONE]),
        ("cd" * 20, [TWO]),
        (ONE.bundle_sha256[:9].upper(), [ONE]),
        ("k3-tiny", [ONE, TWO]),
        ("  k3-TINY ", [ONE, TWO]),
        ("%", []),
        ("' OR 1=1 --", []),
        ("<script>alert(1)</script>", []),
        ("", []),
    ],
)
async def test_search_finds_what_is_meant_and_nothing_else(
    filled: httpx.AsyncClient, query: str, expected: list[SubmissionDocument]
) -> None:
    assert await found(filled, query) == expected


async def test_search_shows_the_query_as_text(client: httpx.AsyncClient) -> None:
    page = await client.get("/search", params={"q": '"><script>alert(1)</script>'})
    assert "<script" not in page.text
    assert (await client.get("/search", params={"q": "x" * 201})).status_code == 422


async def test_badge_says_verdict_and_trust(filled: httpx.AsyncClient) -> None:
    answer = await filled.get("/example/engine/pull/7/badge.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert parsed(answer.text).get("aria-label") == "k3-eval: pass, signed"
    commit = await filled.get(f"/example/other/commit/{'cd' * 20}/badge.svg")
    assert "fail, signed" in commit.text
    none = await filled.get("/example/engine/pull/99/badge.svg")
    assert (none.status_code, "no evidence" in none.text) == (200, True)


async def test_badge_ignores_what_was_retracted(
    filled: httpx.AsyncClient, registry: Registry
) -> None:
    SqlModeration(registry.database).decide(
        "retract", ONE.bundle_sha256, actor="x", reason="y", at=registry.clock.now()
    )
    assert "no evidence" in (await filled.get("/example/engine/pull/7/badge.svg")).text


async def test_feed_is_atom_with_the_newest_first(filled: httpx.AsyncClient) -> None:
    answer = await filled.get("/feed.atom")
    assert answer.headers["content-type"].startswith("application/atom+xml")
    feed = parsed(answer.text)
    ids = [entry.findtext(f"{ATOM}id") for entry in feed.iter(f"{ATOM}entry")]
    expected = [f"{PUBLIC_URL}/submissions/{each.bundle_sha256}" for each in (TWO, ONE)]
    assert ids == expected
    pull = parsed((await filled.get("/example/engine/pull/7/feed.atom")).text)
    assert len(list(pull.iter(f"{ATOM}entry"))) == 1
    assert pull.findtext(f"{ATOM}id") == f"{PUBLIC_URL}/example/engine/pull/7/feed.atom"


async def test_feed_of_an_empty_registry_is_well_formed(client: httpx.AsyncClient) -> None:
    feed = parsed((await client.get("/feed.atom")).text)
    assert feed.findtext(f"{ATOM}updated") == "2026-01-02T05:00:00Z"


async def test_feed_and_badge_show_hostile_text_as_text(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    verdict = example_verdict().model_copy(update={"sentence": "</summary><script>&x;"})
    await registry.submit(client, example_document(verdict))
    feed = parsed((await client.get("/feed.atom")).text)
    assert feed.findtext(f"{ATOM}entry/{ATOM}summary") == "</summary><script>&x;"
