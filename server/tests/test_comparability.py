from dataclasses import replace
from typing import Any

import pytest

from k3bundle.environment import GpuFacts
from k3bundle.verdict import RatioInterval, ServingEvidence
from k3server.adapters.sql.index import SqlIndex
from k3server.comparability import differences_of_results, independent, reasons_against
from k3server.document import SubmissionDocument
from k3server.submission import NewSubmission, Submission
from k3server.trust import Attribution
from k3server_testing.databases import sqlite_database
from k3server_testing.example_document import example_document
from k3server_testing.example_verdict import example_verdict
from k3server_testing.fixed_clock import FixedClock

ONE = example_document(run_id="1" * 32)
TWO = example_document(run_id="2" * 32)


def changed(document: SubmissionDocument, field: str, **values: Any) -> SubmissionDocument:
    record = getattr(document, field).model_copy(update=values)
    return document.model_copy(update={field: record})


def with_ratio(ratio: float, half: float | None) -> SubmissionDocument:
    """The second run with another throughput ratio in every serving cell."""
    cells = []
    for planned in TWO.verdict.cells:
        cell = planned
        evidence = getattr(cell, "evidence", None)
        if isinstance(evidence, ServingEvidence):
            interval = RatioInterval(
                metric="output_tokens_per_s",
                pairs=2,
                ratio=ratio,
                lower=None if half is None else ratio - half,
                upper=None if half is None else ratio + half,
                confidence=0.95,
                minimum_detectable_effect=None,
            )
            cell = cell.model_copy(
                update={"evidence": evidence.model_copy(update={"intervals": (interval,)})}
            )
        cells.append(cell)
    return changed(TWO, "verdict", cells=tuple(cells))


def test_two_runs_of_one_plan_are_comparable_and_agree() -> None:
    assert reasons_against(ONE, TWO) == ()
    assert differences_of_results(ONE, TWO) == ()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (changed(TWO, "environment", cpu_model="another CPU"), "The machines differ"),
        (changed(TWO, "subject", model=TWO.subject.model.model_copy(update={"revision": "r"})),
         "The models differ"),
        (changed(TWO, "subject", engine=TWO.subject.engine.model_copy(update={"version": "9"})),
         "The engines differ"),
    ],
)  # fmt: skip
def test_runs_that_differ_in_more_than_the_change_are_incomparable(
    other: SubmissionDocument, words: str
) -> None:
    (reason,) = reasons_against(ONE, other)
    assert reason.startswith(words)


def test_kernel_package_has_no_model_in_words() -> None:
    nothing = TWO.subject.model.model_copy(update={"name": "no model", "revision": "none"})
    plan = TWO.plan.model_copy(update={"pairing": "package"})
    other = changed(TWO, "subject", model=nothing).model_copy(update={"plan": plan})
    (reason,) = reasons_against(ONE, other)
    assert reason == "The models differ: k3-tiny seed-0, and no model."


def test_plans_that_differ_say_in_what() -> None:
    manifest = TWO.manifest.model_copy(
        update={"run": TWO.manifest.run.model_copy(update={"plan_sha256": "00" * 32})}
    )
    plan = TWO.plan.model_copy(update={"allowed_config_differences": ("x",)})
    other = TWO.model_copy(update={"manifest": manifest, "plan": plan})
    (reason,) = reasons_against(ONE, other)
    assert "differ in allowed config differences" in reason


def test_failed_run_reproduces_nothing() -> None:
    other = example_document(example_verdict("FAIL"), run_id="2" * 32)
    assert differences_of_results(ONE, other) == ("The verdicts are PASS and FAIL, not both PASS.",)


@pytest.mark.parametrize(
    ("ratio", "half", "agrees"),
    [
        (1.03, 0.005, True),
        (1.05, 0.005, True),
        # As near, but known too badly to say so.
        (1.03, 0.08, False),
        (1.12, 0.005, False),
        (0.94, 0.005, False),
    ],
)
def test_ratios_agree_only_where_that_is_shown(ratio: float, half: float, agrees: bool) -> None:
    mine = with_ratio(1.03, 0.005)
    found = differences_of_results(mine, with_ratio(ratio, half))
    assert (found == ()) == agrees
    assert all("within 5 % of each other" in why for why in found)


def test_ratio_without_interval_agrees_with_none_where_speed_is_claimed() -> None:
    gates = TWO.plan.gates.model_copy(update={"claims_speed": True})
    mine = changed(with_ratio(1.03, 0.005), "plan", gates=gates)
    found = differences_of_results(mine, with_ratio(1.03, None))
    assert any("has no interval" in why for why in found)


def submission(identity: str | None, signer: str, organisation: str | None = None) -> Submission:
    document = ONE.model_copy(update={"signer_fingerprint": f"SHA256:{signer * 43}"})
    attribution = None if identity is None else Attribution(identity, "signed", organisation)
    new = NewSubmission(document, "0" * 64, 1, FixedClock().now(), attribution)
    database = sqlite_database()
    made = SqlIndex(database).add(new).submission
    database.close()
    return replace(made)


@pytest.mark.parametrize(
    ("one", "other", "are"),
    [
        (("github:a", "A"), ("github:b", "B"), True),
        (("github:a", "A", "x"), ("github:b", "B", "y"), True),
        (("github:a", "A", "x"), ("github:b", "B", "x"), False),
        (("github:a", "A"), ("github:b", "A"), False),
        (("github:a", "A"), ("github:a", "B"), False),
        ((None, "A"), ("github:b", "B"), False),
        ((None, "A"), (None, "B"), False),
    ],
)
def test_independent_contributors_share_nothing(one: Any, other: Any, are: bool) -> None:
    assert independent(submission(*one), submission(*other)) is are


def on_gpus(made: Submission, *hardware: str | None) -> Submission:
    gpus = tuple(
        GpuFacts(name="GPU", memory_bytes=1, compute_capability="9.0", hardware=each)
        for each in hardware
    )
    return replace(made, document=changed(made.document, "environment", gpus=gpus))


@pytest.mark.parametrize(
    ("mine", "theirs", "are"),
    [
        (("a" * 32, "b" * 32), ("c" * 32, "d" * 32), True),
        (("a" * 32, "b" * 32), ("d" * 32, "b" * 32), False),
        # Where a driver gives none, nothing is known to be shared.
        ((None,), (None,), True),
    ],
)
def test_independent_contributors_share_no_accelerator(mine: Any, theirs: Any, are: bool) -> None:
    one = on_gpus(submission("github:a", "A"), *mine)
    other = on_gpus(submission("github:b", "B"), *theirs)
    assert independent(one, other) is are
