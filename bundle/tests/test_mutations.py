"""A seeded share of the mutated bundles; `make test-mutations` judges all ten thousand."""

from collections import Counter

import pytest

from k3bundle_testing.mutations import KINDS, judge, main, mutate

ALL = 10_000
SHARE = range(0, ALL, 41)


def test_no_mutated_bundle_is_accepted_and_none_ends_in_a_traceback() -> None:
    accepted = [seed for seed in SHARE if not judge(mutate(seed))]
    assert accepted == []


def test_the_share_holds_every_kind_of_tampering() -> None:
    counts = Counter(list(KINDS)[seed % len(KINDS)] for seed in SHARE)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= 30


def test_equal_numbers_give_equal_mutations() -> None:
    assert [mutate(seed) for seed in range(7)] == [mutate(seed) for seed in range(7)]


def test_main_says_what_it_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["7"]) == 0
    assert capsys.readouterr().out == "7 mutated bundles, 0 accepted or with a traceback.\n"
    assert main(["many"]) == 2
