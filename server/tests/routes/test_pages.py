import re
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser

import httpx
import pytest
from markupsafe import escape

from k3bundle.subject import ChangeUnderTest, ImageFacts
from k3server.adapters.sql.moderation import SqlModeration
from k3server.document import SubmissionDocument
from k3server.http_guard import SECURITY_HEADERS
from k3server.published_images import IMAGE_SENTENCES
from k3server.views.wording import title_sentence
from k3server_testing.example_document import EXAMPLE_FINGERPRINT, example_document
from k3server_testing.example_verdict import Status, example_verdict
from k3server_testing.registry import Registry

STATUSES: tuple[Status, ...] = ("PASS", "FAIL", "INCONCLUSIVE", "INVALID", "INCOMPLETE")
VOID = {"meta", "link", "br"}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "{{ 7*7 }}{% raw %}",
    "javascript:alert(1)",
    "</title></style></svg><h1>forged</h1>",
)


@pytest.fixture
def registry() -> Iterator[Registry]:
    """One that knows the key of the example documents: they count, and are on the front page."""
    registry = Registry()
    registry.limit(known_signers=frozenset({EXAMPLE_FINGERPRINT}))
    with closing(registry.database):
        yield registry


class Outline(HTMLParser):
    """Keeps tags in order and checks that they are nested."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag


def outline(html: str) -> Outline:
    parsed = Outline()
    parsed.feed(html)
    parsed.close()
    assert parsed.open == []
    return parsed


def addresses(document: SubmissionDocument) -> tuple[str, ...]:
    change = document.manifest.change
    return (
        "/",
        f"/{change.repository}/pull/{change.pull_request}",
        f"/{change.repository}/commit/{change.commit_sha}",
        f"/submissions/{document.bundle_sha256}",
    )


@pytest.mark.parametrize("status", STATUSES)
async def test_submission_page_tells_verdict_first_then_claims_then_the_rest(
    client: httpx.AsyncClient, registry: Registry, status: Status
) -> None:
    document = example_document(example_verdict(status))
    await registry.submit(client, document)
    answer = await client.get(f"/submissions/{document.bundle_sha256}")
    assert answer.status_code == 200
    page = answer.text
    verdict = document.verdict
    told = [
        f">{escape(title_sentence(status, verdict.sentence))}</h1>",
        "<h3>Isolated</h3>",
        "<h3>Bounded</h3>",
        "<h3>Correct</h3>",
        "<h3>Faster</h3>",
        "Headline numbers",
        "Cells</h2>",
        "Path coverage",
        "Serving ",
        "Greedy outputs",
        "Machine ",
        "Engine build",
        "Model ",
        "Attempts and boots",
        "What this run cannot show",
        "Bundle and signature",
        "Check it, repeat it",
    ]
    places = [page.index(each) for each in told]
    assert places == sorted(places)
    for cell in verdict.cells:
        assert f'id="cell-{cell.cell_id}"' in page
    for limit in verdict.limits:
        assert limit in page
    assert f"/api/v1/submissions/{document.bundle_sha256}/bundle" in page
    assert "k3-eval run \\\n  --tier smoke \\\n  --subject k3-tiny" in page
    assert page.count(">signed</span>") >= 7


async def test_submission_page_matches_the_image_with_those_that_are_known(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    digest, tree = f"sha256:{'a' * 64}", "b" * 64
    document = example_document()
    image = ImageFacts(manifest_digest=digest, tree_sha256=tree)
    subject = document.subject.model_copy(update={"image": image})
    document = document.model_copy(update={"subject": subject})
    await registry.submit(client, document)
    for published, standing in (
        ({digest: tree}, "published"),
        ({digest: "c" * 64}, "unlike"),
        ({}, "unpublished"),
    ):
        registry.limit(published_images=published)
        async with registry.client() as again:
            page = (await again.get(f"/submissions/{document.bundle_sha256}")).text
        said = [one for one, words in IMAGE_SENTENCES.items() if str(escape(words)) in page]
        assert said == [standing]


async def test_submission_page_shows_a_fallback_and_a_missing_boot(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    verdict = example_verdict("INVALID", resumed=True)
    cut = verdict.cells[0].model_copy(update={"coverage": verdict.cells[0].coverage[:3]})  # type: ignore[union-attr]
    changed = verdict.model_copy(update={"cells": (cut, *verdict.cells[1:])})
    document = example_document(changed, resumed=True)
    await registry.submit(client, document)
    page = (await client.get(f"/submissions/{document.bundle_sha256}")).text
    assert "measures stock" in page
    assert "not finished" in page
    assert "The step mixes prompts and decodes." in page
    assert "interrupted and resumed" in page


async def test_pages_of_lists_show_the_newest_verdict_and_every_claim(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    commits = ("ab" * 20, "ab" * 20, "cd" * 20)
    for number, (commit, status) in enumerate(zip(commits, STATUSES, strict=False)):
        change = ChangeUnderTest(repository="example/engine", pull_request=7, commit_sha=commit)
        document = example_document(example_verdict(status), run_id=f"{number:032x}", change=change)
        await registry.submit(client, document)
    pull = (await client.get("/example/engine/pull/7")).text
    assert pull.index(example_verdict("INCONCLUSIVE").sentence) < pull.index("Commits</h2>")
    assert pull.index(f"/commit/{'cd' * 20}") < pull.index(f"/commit/{'ab' * 20}")
    commit = (await client.get(f"/example/engine/commit/{'ab' * 20}")).text
    assert commit.index("greedy outputs differ") < commit.index("isolated, bounded and correct")
    home = (await client.get("/")).text
    assert home.count('data-label="Faster"') == 3
    assert "k3-eval submit" in home


async def test_pages_page_by_cursor(registry: Registry) -> None:
    registry.limit(page_size=1)
    async with registry.client() as client:
        for number in range(2):
            await registry.submit(client, example_document(run_id=f"{number:032x}"))
        for address in addresses(example_document())[:3]:
            first = (await client.get(address)).text
            (cursor,) = re.findall(r'\?before=(\d+)"', first)
            second = await client.get(f"{address}?before={cursor}")
            assert second.status_code == 200
            assert cursor == "2"


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_pages_show_hostile_text_as_text(
    client: httpx.AsyncClient, registry: Registry, hostile: str
) -> None:
    plain = example_document()
    await registry.submit(client, plain)
    expected = [tag for tag, _ in outline((await client.get(addresses(plain)[3])).text).tags]
    document = spoiled(hostile)
    await registry.submit(client, document)
    for address in addresses(document):
        answer = await client.get(address)
        assert answer.status_code == 200
        parsed = outline(answer.text)
        for tag, attributes in parsed.tags:
            assert tag not in {"script", "img", "iframe", "style"}
            assert not {name for name in attributes if name.startswith("on") or name == "style"}
            assert not str(attributes.get("href", "")).startswith("javascript:")
        assert "49" not in re.findall(r"<h1>(.*?)</h1>", answer.text)
    shown = [tag for tag, _ in outline((await client.get(addresses(document)[3])).text).tags]
    assert shown == expected


async def test_pages_spell_out_what_cannot_be_seen(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    document = spoiled("fail\u202essap\u200b\u2066x\x1b[31m")
    await registry.submit(client, document)
    for address in addresses(document):
        text = (await client.get(address)).text
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x1b]", text)
    assert "fail⟦U+202E⟧ssap⟦U+200B⟧⟦U+2066⟧x⟦U+001B⟧[31m" in text


def spoiled(text: str) -> SubmissionDocument:
    """A document with this text in every place where a contributor may write."""
    verdict = example_verdict("FAIL")
    claims = tuple(each.model_copy(update={"sentence": text}) for each in verdict.claims)
    cells = tuple(each.model_copy(update={"reason": text}) for each in verdict.cells)
    headline = tuple(each.model_copy(update={"label": text}) for each in verdict.headline)
    changed = verdict.model_copy(
        update={
            "sentence": text,
            "claims": claims,
            "cells": cells,
            "headline": headline,
            "limits": (text, text),
        }
    )
    document = example_document(changed)
    engine = document.subject.engine.model_copy(
        update={"name": text[:80], "packages": {text: text, "torch": text}}
    )
    model = document.subject.model.model_copy(update={"name": text, "revision": text})
    return document.model_copy(
        update={
            "subject": document.subject.model_copy(update={"engine": engine, "model": model}),
            "environment": document.environment.model_copy(
                update={"cpu_model": text, "kernel": text, "remarks": (text,)}
            ),
            "plan": document.plan.model_copy(update={"subject": text[:80]}),
        }
    )


async def test_pages_are_well_formed_and_carry_the_security_headers(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    document = example_document()
    await registry.submit(client, document)
    for address in (*addresses(document), "/no/such/page", "/submissions/xyz"):
        answer = await client.get(address)
        for name, value in SECURITY_HEADERS.items():
            assert answer.headers[name] == value
        parsed = outline(answer.text)
        tags = [tag for tag, _ in parsed.tags]
        assert tags.count("h1") == tags.count("main") == 1
        assert tags[tags.index("head") : tags.index("body")].count("title") == 1
        ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        links = [str(attributes["href"]) for tag, attributes in parsed.tags if tag == "a"]
        assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
        assert {attributes["alt"] for tag, attributes in parsed.tags if tag == "img"} == set()
        for tag, attributes in parsed.tags:
            if tag == "svg":
                assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"


async def test_style_sheet_is_the_only_thing_a_page_loads(client: httpx.AsyncClient) -> None:
    page = (await client.get("/")).text
    links = [a for tag, a in outline(page).tags if tag == "link"]
    loaded = [a["href"] for a in links if a["rel"] != "alternate"]
    assert len(loaded) == 2
    for address in loaded:
        answer = await client.get(str(address))
        assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("/no/such/page", 404, "There is no such page"),
        ("/static/other.css", 404, "There is no such page"),
        ("/example/engine/pull/7", 404, "Nothing has been submitted here"),
        (f"/example/engine/commit/{'ab' * 20}", 404, "be the first"),
        ("/example/engine/commit/c0ffee", 422, "a full commit SHA of 40"),
        ("/example/engine/pull/first", 422, "a pull request number from 1"),
        (f"/submissions/{'ab' * 32}", 404, "There is no such submission"),
        ("/submissions/abab", 422, "64 lower-case hexadecimal digits"),
        ("/?before=0", 422, "a sequence number of 1 or more"),
        ("/submissions/%3Cscript%3E", 422, "&#39;&lt;script&gt;&#39;"),
        ("/..%2f..%2fetc/passwd", 404, "There is no such page"),
    ],
)
async def test_page_that_is_not_there_is_a_page_with_a_sentence(
    client: httpx.AsyncClient, address: str, status: int, words: str
) -> None:
    answer = await client.get(address)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert words in answer.text
    assert "Go to the latest verdicts" in answer.text


async def test_lists_show_what_was_decided_after_they_were_asked_for(
    registry: Registry, client: httpx.AsyncClient
) -> None:
    document = example_document()
    await registry.submit(client, document)
    change = document.manifest.change
    lists = ("/", f"/{change.repository}/pull/{change.pull_request}")
    assert [">retracted<" in (await client.get(url)).text for url in lists] == [False, False]
    decide = SqlModeration(registry.database).decide
    decided_at = registry.clock.now()
    decide("retract", document.bundle_sha256, actor="x", reason="Wrong driver.", at=decided_at)
    assert [">retracted<" in (await client.get(url)).text for url in lists] == [True, True]
    decide("retract", document.bundle_sha256, actor="x", reason="Wrong fan.", at=decided_at)
    for url in lists:
        page = (await client.get(url)).text
        assert 'title="Wrong fan."' in page
        assert "Wrong driver." not in page
    decide("release", document.bundle_sha256, actor="x", reason="Right.", at=decided_at)
    assert [">retracted<" in (await client.get(url)).text for url in lists] == [False, False]
