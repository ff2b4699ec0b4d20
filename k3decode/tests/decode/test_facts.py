import pytest

from k3decode.decode.facts import StepFacts


def test_counts_are_sums_of_the_parts() -> None:
    facts = StepFacts(
        decode_requests=2,
        verify_requests=3,
        verify_rows=7,
        longest_draft=2,
        uniform_verify=False,
        prompt_requests=1,
        prompt_rows=90,
    )
    assert (facts.num_requests, facts.decode_rows, facts.num_tokens) == (6, 9, 99)


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        (StepFacts(decode_requests=1), "decode"),
        (StepFacts(verify_requests=1, verify_rows=2, longest_draft=1), "verify"),
        (StepFacts(decode_requests=1, verify_requests=1, verify_rows=2, longest_draft=1), "verify"),
        (StepFacts(prompt_requests=1, prompt_rows=5), "prefill"),
        (StepFacts(prompt_requests=1, prompt_rows=5, decode_requests=1), "mixed"),
        (
            StepFacts(
                prompt_requests=1, prompt_rows=5, verify_requests=1, verify_rows=2, longest_draft=1
            ),
            "mixed",
        ),
    ],
)
def test_kind_of_a_step(facts: StepFacts, kind: str) -> None:
    assert facts.kind == kind


@pytest.mark.parametrize(
    "wrong",
    [
        {"decode_requests": -1},
        {"prompt_rows": 3},
        {"prompt_requests": 2, "prompt_rows": 1},
        {"verify_requests": 1, "verify_rows": 1, "longest_draft": 1},
        {"verify_requests": 1, "verify_rows": 2},
        {"verify_requests": 1, "verify_rows": 4, "longest_draft": 2},
        {"longest_draft": 1},
    ],
)
def test_facts_that_do_not_fit_together_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must fit together"):
        StepFacts(**wrong)  # type: ignore[arg-type]
