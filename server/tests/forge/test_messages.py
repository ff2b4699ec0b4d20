"""What the forge is told: short enough, and nothing in it is markup that a contributor wrote."""

from typing import Any

import pytest
from markdown_it import MarkdownIt

from k3server.forge.messages import MARKER, Row, as_code, comment_of, status_of
from k3server.forge.policy import Decision

HEAD = "a" * 40
PAGE = "https://registry.example/o/r/pull/7"
MET = Decision(met=True, missing=(), used=("1" * 64,))
UNMET = Decision(met=False, missing=("evidence for tier quick: found none", "x"), used=())
HOSTILE = (
    "`code` ends",
    "a | b",
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "![x](http://evil.example/p.png)",
    "@everyone look",
    "http://evil.example",
    "line\nbreak",
    "\u202eright to left",
    "\x00\x1b[31m",
    "`" * 200,
    "--> <!-- k3-eval:v1 -->",
    "",
)


def row(**changes: Any) -> Row:
    values: dict[str, Any] = {
        "bundle_sha256": "1" * 64,
        "commit_sha": HEAD,
        "tier": "quick",
        "subject": "kimi-k3-upstream",
        "status": "PASS",
        "sentence": "41 of 43, 2 excused",
        "trust": "signed",
        "superseded": False,
    }
    return Row(**(values | changes))


def test_status_says_what_the_policy_says() -> None:
    assert status_of(HEAD, MET, 1, PAGE).state == "success"
    unmet = status_of(HEAD, UNMET, 0, PAGE)
    assert unmet.state == "pending"
    assert "tier quick" in unmet.description
    assert "and 1 more" in unmet.description
    assert status_of(HEAD, None, 0, PAGE).state == "pending"
    assert status_of(HEAD, None, 2, PAGE).state == "success"


def test_status_is_never_too_long() -> None:
    long = Decision(met=False, missing=("x" * 500,), used=())
    assert len(status_of(HEAD, long, 0, PAGE).description) == 140


def test_comment_begins_with_the_marker_and_links_every_submission() -> None:
    body = comment_of(HEAD, MET, [row(), row(bundle_sha256="2" * 64)], PAGE).body
    assert body.startswith(MARKER + "\n")
    assert f"https://registry.example/submissions/{'2' * 64}" in body
    assert "All evidence" in body


def test_comment_counts_what_is_superseded_and_does_not_list_it() -> None:
    body = comment_of(HEAD, None, [row(superseded=True, commit_sha="b" * 40)], PAGE).body
    assert "1 submissions are for commits that are no longer the head" in body
    assert "| verdict |" not in body


def test_comment_is_never_too_long() -> None:
    many = [row(bundle_sha256=f"{number:064x}", sentence="x" * 4000) for number in range(300)]
    body = comment_of(HEAD, UNMET, many, PAGE).body
    assert len(body) <= 60_000
    assert "280 more are on the page." in body


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_one_code_span_and_nothing_else(text: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(as_code(text))
    kinds = [child.type for token in tokens for child in token.children or ()]
    assert kinds == ["code_inline"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_adds_no_cell_link_or_image_to_the_comment(text: str) -> None:
    plain = _shape(comment_of(HEAD, UNMET, [row()], PAGE).body)
    hostile = comment_of(
        HEAD,
        Decision(met=False, missing=(text, text), used=()),
        [row(sentence=text, subject=text)],
        PAGE,
    ).body
    assert _shape(hostile) == plain


def _shape(body: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for token in MarkdownIt("commonmark").enable("table").parse(body):
        for one in (token, *(token.children or ())):
            if one.type in ("td_open", "tr_open", "link_open", "image", "html_inline"):
                counts[one.type] = counts.get(one.type, 0) + 1
    return counts
