"""What a repository asks for, and what counts towards it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from k3server.forge.policy import Evidence, PolicyError, decide, parse_policy

HEAD, OLDER = "a" * 40, "b" * 40
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
FILE = b"""
policy_version = "1"

[[required]]
tier = "quick"

[[required]]
tier = "standard"
subject = "kimi-k3-upstream"
least_trust = "reproduced"
newest_within_days = 14
claims = ["isolated", "bounded", "correct", "faster"]
cells = ["serving-isl1024-osl256-c8"]
independent = 2
"""


def evidence(**changes: Any) -> Evidence:
    values: dict[str, Any] = {
        "bundle_sha256": "1" * 64,
        "commit_sha": HEAD,
        "tier": "quick",
        "subject": "kimi-k3-upstream",
        "trust": "signed",
        "contributor": "key:one",
        "received_at": NOW - timedelta(days=1),
        "passed_claims": frozenset({"isolated", "bounded", "correct"}),
        "passed_cells": frozenset(),
    }
    return Evidence(**(values | changes))


def standard(**changes: Any) -> Evidence:
    values: dict[str, Any] = {
        "bundle_sha256": "2" * 64,
        "tier": "standard",
        "trust": "reproduced",
        "passed_claims": frozenset({"isolated", "bounded", "correct", "faster"}),
        "passed_cells": frozenset({"serving-isl1024-osl256-c8"}),
    }
    return evidence(**(values | changes))


GOOD = (evidence(), standard(), standard(bundle_sha256="3" * 64, contributor="key:two"))


def test_everything_there_is_met_and_named() -> None:
    decision = decide(parse_policy(FILE), HEAD, GOOD, NOW)
    assert decision.met
    assert decision.missing == ()
    assert decision.used == ("1" * 64, "2" * 64, "3" * 64)


@pytest.mark.parametrize(
    "changes",
    [
        {"commit_sha": OLDER},
        {"tier": "smoke"},
        {"subject": "another"},
        {"trust": "signed"},
        {"received_at": NOW - timedelta(days=15)},
        {"passed_claims": frozenset({"isolated", "bounded", "correct"})},
        {"passed_cells": frozenset()},
        {"contributor": "key:one"},
        {"counts": False},
    ],
)
def test_what_falls_short_in_one_thing_does_not_count(changes: dict[str, Any]) -> None:
    last = standard(**({"bundle_sha256": "3" * 64, "contributor": "key:two"} | changes))
    decision = decide(parse_policy(FILE), HEAD, (*GOOD[:2], last), NOW)
    assert not decision.met
    (sentence,) = decision.missing
    assert sentence.startswith("2 contributors for tier standard of kimi-k3-upstream")
    assert sentence.endswith("found 1")


def test_nothing_there_names_every_requirement() -> None:
    decision = decide(parse_policy(FILE), HEAD, (), NOW)
    assert len(decision.missing) == 2
    assert decision.missing[0].startswith("evidence for tier quick, at least signed")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff", "not UTF-8"),
        (b"policy_version = ", "not TOML"),
        (b'policy_version = "1"', "required"),
        (b'policy_version = "2"\n[[required]]\ntier = "quick"', "policy_version"),
        (b'policy_version = "1"\nrequired = "all"', "a list of tables is due"),
        (b'policy_version = "1"\n[[required]]\ntier = "fast"', "tier"),
        (b'policy_version = "1"\n[[required]]\ntier = "quick"\nleast = "none"', "least"),
        (b'policy_version = "1"\n[[required]]\ntier = "quick"\nindependent = 0', "independent"),
        (b"x" * 65_537, "65537 bytes"),
    ],
)
def test_what_is_no_policy_is_a_sentence(content: bytes, words: str) -> None:
    with pytest.raises(PolicyError) as refused:
        parse_policy(content)
    assert str(refused.value).startswith(".k3-eval.toml")
    assert words in str(refused.value)
    assert str(refused.value).endswith(".")
