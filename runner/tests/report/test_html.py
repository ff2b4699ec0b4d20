"""The page holds every cell and claim, escapes hostile text, and asks for nothing outside."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.plan import SkippedCell
from k3bundle.verdict import Verdict
from k3bundle_testing import good_records
from k3runner.report.build import CLAIM_QUESTIONS, build_view
from k3runner.report.html import render_html
from k3runner.report.view import SealView

HOSTILE = "</script><img src=x onerror=alert(1)> & \u202eSSAP\u202c \x1b[2J\u200b"
SEAL = SealView("5f" * 32, "SHA256:abc", "2026-01-31T10:22:41Z", "run.k3b")
VOID = {"meta", "br", "img", "link", "hr", "input"}


class Page(HTMLParser):
    """Collects tags and text, and notices tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.unmatched: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unmatched.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))


def page_of(
    records: RunRecords, verdict: Verdict | None = None, seal: SealView | None = SEAL
) -> tuple[str, Page]:
    html = render_html(build_view(records, verdict or derive(records), seal))
    return html, Page(html)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"candidate_path": "stock"},
        {"structured_output_broken": True},
        {"resumed": True},
        {"pairing": "single"},
        {"skipped_only": True},
        {"coverage_available": False},
        {"failed_serving_requests": 4},
    ],
)
def test_page_shows_verdict_claims_and_every_cell_with_its_reason(
    changes: dict[str, object],
) -> None:
    records = good_records(**changes)
    verdict = derive(records)
    _, page = page_of(records, verdict)

    assert page.unmatched == []
    assert page.open == []
    headings = [text for text in page.texts if text == verdict.status.replace("_", " ")]
    assert headings
    for claim in verdict.claims:
        assert claim.name.capitalize() in page.texts
        assert CLAIM_QUESTIONS[claim.name] in page.texts
        assert re.sub(r"\s+", " ", claim.sentence) in page.text
    for cell in verdict.cells:
        assert ("tr", f"cell-{cell.cell_id}") in [(tag, a.get("id")) for tag, a in page.tags]
        assert re.sub(r"\s+", " ", cell.reason) in page.text
    for limit in verdict.limits:
        assert limit in page.texts


def test_page_comes_verdict_first_then_claims_then_numbers_then_cells() -> None:
    html, _ = page_of(good_records())

    order = ["verdict-word", "claims-title", "numbers-title", "ratio-title", "rates-title"]
    order += ["cells-title", "coverage-title", "isolation-title", "machine-title"]
    order += ["timing-title", "tokens-title", "ran-title", "limits-title", "trust-title"]
    order += ["again-title"]
    places = [html.index(f'id="{name}"') for name in order]
    assert places == sorted(places)


def hostile_run() -> tuple[RunRecords, Verdict]:
    records = good_records()
    skipped = SkippedCell(cell_id="skipped-cell", reason=HOSTILE)
    plan = records.plan.model_copy(update={"cells": (*records.plan.cells, skipped)})
    engine = records.subject.engine.model_copy(update={"packages": {HOSTILE: HOSTILE}})
    subject = records.subject.model_copy(update={"engine": engine, "subject": HOSTILE})
    environment = records.environment.model_copy(update={"remarks": (HOSTILE,)})
    hostile = replace(
        records,
        plan=plan.model_copy(update={"limits": (HOSTILE,), "subject": HOSTILE}),
        subject=subject,
        environment=environment,
    )
    verdict = derive(hostile)
    claims = tuple(claim.model_copy(update={"sentence": HOSTILE}) for claim in verdict.claims)
    cells = tuple(cell.model_copy(update={"reason": HOSTILE}) for cell in verdict.cells)
    changes = {"claims": claims, "cells": cells, "sentence": HOSTILE}
    return hostile, verdict.model_copy(update=changes)


def test_page_with_hostile_text_shows_it_and_does_not_obey_it() -> None:
    records, verdict = hostile_run()
    html, page = page_of(records, verdict, replace(SEAL, signer=HOSTILE, file_name=HOSTILE))

    assert not {"script", "img", "iframe", "object", "embed", "link"} & {t for t, _ in page.tags}
    for forbidden in ("\u202e", "\u202c", "\x1b", "\u200b"):
        assert forbidden not in html
    shown = "</script><img src=x onerror=alert(1)> & ⟨U+202E⟩SSAP⟨U+202C⟩ ⟨U+001B⟩[2J⟨U+200B⟩"
    assert page.text.count(shown) >= 10
    assert page.unmatched == []


def test_page_asks_for_nothing_outside_itself() -> None:
    html, page = page_of(good_records())

    for _, attributes in page.tags:
        assert not {"src", "srcset", "style", "onclick", "onload", "action"} & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "url(" not in html
    assert "@import" not in html
    assert not re.search(r"https?://", html)


def test_page_policy_allows_only_its_own_style() -> None:
    html, page = page_of(good_records())

    policy = next(a["content"] for tag, a in page.tags if "http-equiv" in a)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_page_tables_have_headers_and_charts_speak() -> None:
    html, page = page_of(good_records())

    heads = [a for tag, a in page.tags if tag == "th"]
    assert heads
    assert all(a.get("scope") in ("col", "row") for a in heads)
    charts = re.findall(r'<svg role="img".*?</svg>(?!<path)', html)
    outer = [a for tag, a in page.tags if tag == "svg" and a.get("role") == "img"]
    assert len(charts) >= len(outer) > 0
    assert all(a["aria-label"] for a in outer)
    assert ("html", "en") in [(tag, a.get("lang")) for tag, a in page.tags]
    assert sum(tag == "h1" for tag, _ in page.tags) == 1


def test_page_says_not_judged_where_the_tier_claims_no_speed() -> None:
    html, page = page_of(good_records())

    assert "NOT JUDGED" in page.text
    assert "reports speed and never claims it" in page.text
    assert "ratio 1.000" in html


def test_page_of_a_resumed_run_says_so() -> None:
    _, resumed = page_of(good_records(resumed=True))
    _, whole = page_of(good_records())

    assert "resumed after an interruption" in resumed.text
    assert "The run was interrupted and resumed." in resumed.text
    assert "The run was not interrupted." in whole.text


def test_page_of_a_folder_says_that_it_is_unsealed() -> None:
    _, page = page_of(good_records(), seal=None)

    assert "unsealed" in page.texts
    assert "anyone could have edited it" in page.text
    assert "k3-eval verify" not in page.text


def test_page_teaches_how_to_do_it_again() -> None:
    _, page = page_of(good_records())

    about = f"--repository example/engine --pull-request 7 --commit c0ffee{'0' * 34}"
    assert f"k3-eval verify run.k3b {about} --signer SHA256:abc" in page.texts
    assert f"k3-eval run --tier smoke --subject k3-tiny {about}" in page.texts


CSS_COLOURS = ("ink", "ink-2", "good", "bad", "warn", "odd", "quiet", "candidate", "baseline")


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def mixed(tone: str, surface: str, share: float) -> str:
    pairs = [(int(tone[i : i + 2], 16), int(surface[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(t * share + s * (1 - share)):02x}" for t, s in pairs)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("name", CSS_COLOURS)
def test_palette_contrast_is_aa_in_both_schemes(scheme: int, name: str) -> None:
    html, _ = page_of(good_records())
    blocks = re.findall(r":root \{(.*?)\}", html, re.DOTALL)
    palette = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", blocks[scheme]))

    assert contrast(palette[name], palette["paper"]) >= 4.5
    assert contrast(palette[name], palette["surface"]) >= 4.5
    if name in ("good", "bad", "warn", "odd", "quiet"):
        badge = mixed(palette[name], palette["surface"], 0.10)
        assert contrast(palette[name], badge) >= 4.5


def test_charts_are_well_formed_xml() -> None:
    html, _ = page_of(good_records(candidate_path="stock"))

    charts = re.findall(r'<div class="plot">(.*?)</div>', html, re.DOTALL)
    assert len(charts) > 10
    for chart in charts:
        assert ElementTree.fromstring(chart).tag == "svg"  # noqa: S314
