"""Lines of a kernel package become records, or a sentence says which line is none, and why."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from k3bundle.kernel_record import AuditedKernel, CheckedCase, TimedCase
from k3runner.kernel_answers import Answers, read_answers
from k3runner.subjects.kernel_package import KernelTaskName

BENCHMARKS = Path(__file__).parents[2] / "k3decode/benchmarks"
CASE = {
    "schema": "some_package.check/1",
    "op": "attn_res",
    "case": "add_1_m3",
    "group": "smoke",
    "outcome": "passed",
    "worst": 0.25,
    "sentences": [],
    "gpu": "NVIDIA H200",
    "more": 3,
}


def read(output: bytes, task: KernelTaskName = "check") -> Answers:
    return read_answers(output, task, boot_id="boot-0.0", cell_id=task)


def line(**changes: Any) -> bytes:
    return json.dumps({**CASE, **changes}).encode() + b"\n"


def test_a_line_becomes_a_record_and_its_texts_become_facts() -> None:
    found = read(line() + line(case="add_2_m3", gpu="later lines are not asked"))
    first = found.records[0]
    assert isinstance(first, CheckedCase)
    assert (first.op, first.case, first.worst) == ("attn_res", "add_1_m3", 0.25)
    assert len(found.records) == 2
    assert found.facts == {"schema": "some_package.check/1", "gpu": "NVIDIA H200"}


def test_other_lines_are_counted_and_not_read() -> None:
    said = b"compiling\n\n{half\n" + line() + b'{"schema": "some_package.audit/1"}\n[1]\n{"a": 1}\n'
    found = read(said)
    assert (len(found.records), found.other_lines) == (1, 5)


@pytest.mark.parametrize(
    "said",
    [
        line(outcome="failed", worst=float("nan")),
        line(outcome="failed")[:60],
        b'  {"schema": "some_package.check/1", "outcome": "failed", "worst": NaN}',
        b'{"schema": "some_package.check/1", "outcome": "failed", "outcome": "passed"}',
    ],
)
def test_a_line_that_cannot_be_read_is_no_line_to_pass_over(said: bytes) -> None:
    found = read(line(case="another") + said + b"\n" + line(case="later"))
    assert (len(found.records), found.unread_lines) == (2, 1)
    (sentence,) = found.unread
    assert sentence.startswith("Line 2 of the check begins like an answer and is not strict JSON")
    assert sentence.endswith("Correct the package's adapter; runner/README.md describes its lines.")


def test_an_indented_line_is_read() -> None:
    assert len(read(b"   " + line()).records) == 1


def test_two_lines_about_one_case_are_an_error() -> None:
    found = read(line() + line(case="another") + line(outcome="failed"))
    assert [one.outcome for one in found.records if isinstance(one, CheckedCase)] == ["passed"] * 2
    assert found.unread[0].startswith(
        "Lines 1 and 3 of the check are about the same: 'attn_res add_1_m3'."
    )


def test_another_version_of_the_contract_is_an_error_and_not_a_guess() -> None:
    found = read(line(schema="some_package.check/3"))
    assert found.records == ()
    assert "version 1 or 2 of the contract, found `some_package.check/3`" in found.unread[0]


@pytest.mark.parametrize(
    ("task", "module"),
    [("check", "check.py"), ("bench", "bench.py"), ("audit", "audit/report.py")],
)
def test_what_our_own_package_prints_is_of_a_version_that_is_read(
    task: KernelTaskName, module: str
) -> None:
    source = (BENCHMARKS.parent / "src/k3decode" / module).read_text("utf-8")
    (schema,) = re.findall(r'^SCHEMA = "(k3decode\.[a-z]+/\d+)"$', source, re.MULTILINE)
    # A line of a version that is read and lacks every field says which field it lacks.
    found = read(json.dumps({"schema": schema}).encode(), task)
    assert f"Line 1 of the {task} is no answer" in found.unread[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"outcome": "maybe"}, "`outcome`"),
        ({"op": None}, "`op`"),
        ({"worst": "small"}, "`worst`"),
        ({"sentences": "wrong"}, "`sentences`"),
    ],
)
def test_a_line_with_a_wrong_field_names_it(changes: dict[str, Any], words: str) -> None:
    found = read(line(**changes))
    assert found.records == ()
    assert f"Line 1 of the check is no answer: {words}" in found.unread[0]


def test_very_many_bad_lines_are_counted() -> None:
    found = read(line(outcome="maybe") * 30)
    assert (found.unread_lines, len(found.unread)) == (30, 20)


def test_long_texts_are_cut_and_a_symbol_of_any_length_is_taken() -> None:
    (record,) = read(line(sentences=["x" * 5000])).records
    assert isinstance(record, CheckedCase)
    assert len(record.sentences[0]) == 2000


@pytest.mark.parametrize(
    ("file", "task", "kind"),
    [
        ("h200-2026-11-30-all/check.jsonl", "check", CheckedCase),
        ("h200-2026-11-30-whole/check.jsonl", "check", CheckedCase),
        ("audit.jsonl", "audit", AuditedKernel),
        ("h200-2026-11-30-projection/bench.jsonl", "bench", TimedCase),
    ],
)
def test_what_k3decode_printed_on_a_gpu_is_of_the_contract(
    file: str, task: KernelTaskName, kind: type
) -> None:
    output = (BENCHMARKS / file).read_bytes()
    found = read(output, task)
    assert (found.other_lines, found.unread_lines) == (0, 0)
    assert len(found.records) == output.count(b"\n") > 10
    assert {type(record) for record in found.records} == {kind}


def test_a_token_is_found_before_a_text_is_cut_and_two_names_it_made_one_are_a_sentence() -> None:
    def clean(_field: str, text: str) -> str:
        return re.sub("tok[0-9]{10}", "<token>", text)

    said = line(case="a tok0123456789", note="y" * 495 + "tok0123456789", tok0123456789="x")
    said += line(case="a tok9876543210")
    found = read_answers(said, "check", boot_id="boot-0.0", cell_id="check", clean=clean)
    (record,) = found.records
    assert isinstance(record, CheckedCase)
    assert record.case == "a <token>"
    assert found.facts["note"] == "y" * 495 + "<toke"
    assert found.facts["<token>"] == "x"
    assert "are about the same: 'attn_res a <token>'" in found.unread[0]
