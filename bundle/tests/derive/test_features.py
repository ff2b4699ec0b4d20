"""Feature checks and the rule of a feature cell."""

from dataclasses import replace

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.verdict import CellFail, CellInvalid, CellPass, CellResult, FeatureEvidence

from .changes import (
    change_requests,
    fail,
    update,
    with_config,
)
from .records import (
    CHAT,
    SAMPLING,
    STREAMING,
    STRUCTURED,
    a_plan,
    a_run,
    completed,
)

FEATURES = ("structured", "sampling", "streaming", "chat")
BREAKS = [
    ("structured", "stream", {"text": '{"answer": "seven"}'}, "does not satisfy the schema"),
    ("structured", "stream", {"text": '{"answer": '}, "is not JSON"),
    ("structured", "stream", {"text": '{"answer": NaN}'}, "NaN is not a JSON number"),
    ("structured", "stream", {"text": None}, "no text was recorded"),
    ("sampling", "seeded_repeat", {"token_ids": (9, 9)}, "other tokens when repeated"),
    ("streaming", "block", {"token_ids": (9, 9)}, "streamed tokens differ"),
    ("streaming", "block", {"text_sha256": "00" * 32}, "streamed text differs"),
    ("streaming", "stream", {"outcome": completed(0)}, "reports no tokens in its usage"),
    ("chat", "stream", {"text_sha256": "00" * 32}, "streamed chat text differs"),
    ("chat", "block", {"outcome": completed(8, prompt=0)}, "reports no tokens in its usage"),
]


def cell_named(records: RunRecords, cell_id: str) -> CellResult:
    return next(cell for cell in derive(records).cells if cell.cell_id == cell_id)


@pytest.mark.parametrize(("cell_id", "total"), [("structured", 4), ("sampling", 6), ("chat", 4)])
def test_a_kept_feature_passes_with_its_counts(cell_id: str, total: int) -> None:
    cell = cell_named(a_run(), cell_id)
    assert isinstance(cell, CellPass)
    assert cell.evidence == FeatureEvidence(
        baseline_passed=total,
        baseline_total=total,
        candidate_passed=total,
        candidate_total=total,
        first_failure=None,
    )


@pytest.mark.parametrize(("cell_id", "variant", "changes", "words"), BREAKS)
def test_a_feature_that_only_the_candidate_loses_fails(
    cell_id: str, variant: str, changes: dict[str, object], words: str
) -> None:
    records = change_requests(
        a_run(), update(**changes), cell=cell_id, slots=[1], index=1, variant=variant
    )
    cell = cell_named(records, cell_id)
    assert isinstance(cell, CellFail)
    assert isinstance(cell.evidence, FeatureEvidence)
    assert cell.evidence.candidate_passed == cell.evidence.candidate_total - 1
    assert "prompt 1 in boot 1 (candidate)" in str(cell.evidence.first_failure)
    assert words in cell.reason


@pytest.mark.parametrize(("cell_id", "variant", "changes", "words"), BREAKS)
def test_a_feature_that_the_baseline_lacks_cannot_be_judged(
    cell_id: str, variant: str, changes: dict[str, object], words: str
) -> None:
    records = change_requests(a_run(), update(**changes), cell=cell_id, index=1, variant=variant)
    cell = cell_named(records, cell_id)
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "baseline_unstable"
    assert words in cell.reason


@pytest.mark.parametrize("cell_id", FEATURES)
def test_a_failed_request_of_the_candidate_fails_the_feature(cell_id: str) -> None:
    cell = cell_named(change_requests(a_run(), fail, cell=cell_id, slots=[2], index=0), cell_id)
    assert cell.status == "FAIL"
    assert "request failed (http_status)" in cell.reason


def test_another_seed_must_change_the_answer_of_at_least_one_prompt() -> None:
    same = update(token_ids=tuple(range(8)), text_sha256="cd" * 32)
    one = change_requests(a_run(), same, cell="sampling", slots=[1], index=0, variant="other_seed")
    assert cell_named(one, "sampling").status == "PASS"
    both = change_requests(a_run(), same, cell="sampling", slots=[1], variant="other_seed")
    cell = cell_named(both, "sampling")
    assert isinstance(cell, CellFail)
    assert "another seed gave the same tokens for every prompt" in cell.reason


def test_answers_without_token_ids_are_compared_by_their_text() -> None:
    records = change_requests(a_run(), update(token_ids=None))
    assert {cell_named(records, name).status for name in FEATURES} == {"PASS"}
    other = change_requests(
        records, update(text_sha256="00" * 32), cell="sampling", slots=[1], variant="seeded_repeat"
    )
    assert cell_named(other, "sampling").status == "FAIL"


@pytest.mark.parametrize("cell", [STRUCTURED, SAMPLING, STREAMING, CHAT], ids=lambda c: c.feature)
def test_a_missing_request_cannot_be_judged(cell: object) -> None:
    cell_id = getattr(cell, "cell_id", "")
    records = a_run()
    last = [r for r in records.requests if r.cell_id == cell_id][-1]
    found = cell_named(
        replace(records, requests=tuple(r for r in records.requests if r is not last)), cell_id
    )
    assert isinstance(found, CellInvalid)
    assert found.cause == "missing_requests"


def test_a_schema_outside_the_subset_cannot_be_judged() -> None:
    hostile = STRUCTURED.model_copy(update={"json_schema": {"$ref": "http://example.invalid/s"}})
    cell = cell_named(a_run(a_plan((hostile,))), "structured")
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "undecided"
    assert "'$ref' is outside the subset" in cell.reason


def test_a_plan_without_a_schema_cannot_be_judged() -> None:
    bare = STRUCTURED.model_copy(update={"json_schema": None})
    cell = cell_named(a_run(a_plan((bare,))), "structured")
    assert isinstance(cell, CellInvalid)
    assert "gives no schema" in cell.reason


def test_answers_that_cost_too_much_together_are_not_checked() -> None:
    schema = {"allOf": [{"type": "array"}] * 200, "items": {"type": "integer"}}
    cell = STRUCTURED.model_copy(update={"json_schema": schema, "request_count": 60})
    text = "[" + ",".join(["1"] * 200) + "]"
    records = change_requests(a_run(a_plan((cell,))), update(text=text), cell="structured")
    found = cell_named(records, "structured")
    assert isinstance(found, CellInvalid)
    assert "too large together" in found.reason


def test_unchecked_tokens_show_no_feature() -> None:
    config = {"speculative_config.rejection_sample_method": "synthetic"}
    cell = cell_named(with_config(a_run(), 0, config), "chat")
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "synthetic_acceptance"
