"""Markdown and JSON forms: escaped, labelled with trust, and whole."""

import json

import pytest

from k3bundle.derive import derive
from k3bundle_testing import good_records
from k3runner.report.build import build_view
from k3runner.report.json_form import SCHEMA, render_json
from k3runner.report.markdown import render_markdown
from k3runner.report.markdown_table import escape_markdown
from k3runner.report.view import SealView
from k3runner.status_mark import without_status

SEAL = SealView("5f" * 32, "SHA256:abc", "2026-01-31T10:22:41Z", "run.k3b")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>bold</b>", "&lt;b&gt;bold&lt;/b&gt;"),
        ("| a | b |", "\\| a \\| b \\|"),
        ("[x](y)", "\\[x\\]\\(y\\)"),
        ("![i](u)", "\\!\\[i\\]\\(u\\)"),
        ("@someone and #12", "&#64;someone and \\#12"),
        ("`code` $math$", "\\`code\\` \\$math\\$"),
        (
            "see https://evil.example or www.evil.example",
            "see https&#58;//evil.example or www&#46;evil.example",
        ),
        ("a\nb", "a b"),
        ("\u202ex\x1b", "⟨U+202E⟩x⟨U+001B⟩"),
        ("&amp;", "&amp;amp;"),
    ],
)
def test_escape_markdown_shows_text_as_it_is(text: str, shown: str) -> None:
    assert escape_markdown(text) == shown


@pytest.mark.parametrize("changes", [{}, {"candidate_path": "stock"}, {"pairing": "single"}])
def test_markdown_holds_verdict_claims_cells_and_trust(changes: dict[str, object]) -> None:
    records = good_records(**changes)
    verdict = derive(records)
    text = render_markdown(build_view(records, verdict, SEAL))

    lines = text.splitlines()
    assert lines[0].endswith(verdict.status)
    assert lines[2] == f"> {escape_markdown(without_status(verdict.sentence, verdict.status))}"
    assert "**Self-reported.**" in text
    assert "| Number (self-reported) |" in text
    for claim in verdict.claims:
        assert f"| **{claim.name}** |" in text
    for cell in verdict.cells:
        assert f"| `{cell.cell_id}` |" in text
        assert escape_markdown(cell.reason) in text
    tables = [line for line in lines if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)


def test_json_form_is_strict_json_with_its_schema_and_trust() -> None:
    records = good_records()
    found = json.loads(render_json(build_view(records, derive(records), SEAL)))

    assert found["schema"] == SCHEMA
    assert found["trust"] == "self-reported"
    assert [claim["name"] for claim in found["claims"]] == [
        "isolated",
        "bounded",
        "correct",
        "faster",
    ]
    assert [cell["cell_id"] for cell in found["cells"]] == [c.cell_id for c in records.plan.cells]


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [("PASS: all is well.", "All is well."), ("All is well.", "All is well."), ("PASS: ", "")],
)
def test_without_status_removes_only_a_leading_status(sentence: str, shown: str) -> None:
    assert without_status(sentence, "PASS") == shown
