from typing import Any

import pytest

from k3bundle.plan import ServingCell
from k3bundle.traffic import PoissonArrivals, TraceEntry, TraceReplay
from k3runner.errors import UsageError
from k3runner.load.planned import plan_requests, request_body
from k3runner.load.prompt_file import FilePrompt
from k3runner.prompts import Vocabulary, order_of, poisson_arrivals_ns

VOCABULARY = Vocabulary(first=0, size=5000, special=frozenset({0}))
NONCE, OTHER = "a" * 64, "b" * 64
DIGEST = "c" * 64


def cell(**more: Any) -> ServingCell:
    values: dict[str, Any] = {
        "cell_id": "serving",
        "endpoint": "completions",
        "concurrency": 4,
        "prompt_tokens": 40,
        "output_tokens": 4,
        "warmup_requests": 0,
        "request_count": 6,
    }
    return ServingCell(**(values | more))


def prompts(planned: ServingCell, nonce: str = NONCE) -> list[Any]:
    return [one.prompt for one in plan_requests(planned, nonce, VOCABULARY).measured]


def common(first: Any, second: Any) -> int:
    """Length of the longest common beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


def test_prompts_have_exact_lengths_and_share_nothing() -> None:
    found = prompts(cell())
    assert [len(prompt) for prompt in found] == [40] * 6
    assert all(common(found[0], other) < 3 for other in found[1:])


def test_shared_prefix_is_shared_by_all_and_is_part_of_the_length() -> None:
    found = prompts(cell(shared_prefix_tokens=24))
    assert [len(prompt) for prompt in found] == [40] * 6
    assert all(24 <= common(found[0], other) < 28 for other in found[1:])
    assert found[0][:24] != prompts(cell(shared_prefix_tokens=24), OTHER)[0][:24]


def test_shared_prefix_of_chat_messages_is_words() -> None:
    found = prompts(cell(endpoint="chat", shared_prefix_tokens=24))
    assert len({message.split()[5] for message in found}) == 1
    assert len({message.split()[6] for message in found}) > 1
    assert {len(message.split()) for message in found} == {10}


def test_prefix_as_long_as_the_prompt_leaves_one_token_of_its_own() -> None:
    found = prompts(cell(shared_prefix_tokens=40))
    assert [common(found[0], other) for other in found[1:]].count(39) >= 4


def test_poisson_arrivals_are_seeded_and_have_the_rate() -> None:
    due = poisson_arrivals_ns(NONCE, "cell", 4000, 20.0)
    assert list(due) == sorted(due)
    assert due == poisson_arrivals_ns(NONCE, "cell", 4000, 20.0)
    assert due != poisson_arrivals_ns(OTHER, "cell", 4000, 20.0)
    gaps = [(b - a) / 1e9 for a, b in zip((0, *due), due, strict=False)]
    mean = sum(gaps) / len(gaps)
    # Exponential: the standard deviation is the mean; 4000 draws give both within a few percent.
    assert mean == pytest.approx(1 / 20, rel=0.05)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert spread == pytest.approx(mean, rel=0.08)


def test_poisson_cell_has_due_times_and_no_warm_up_has() -> None:
    planned = cell(traffic=PoissonArrivals(requests_per_s=5.0), warmup_requests=2)
    requests = plan_requests(planned, NONCE, VOCABULARY)
    assert [one.due_ns for one in requests.measured] == list(
        poisson_arrivals_ns(NONCE, "serving", 6, 5.0)
    )
    assert [one.due_ns for batch in requests.warmup for one in batch] == [None, None]


def trace() -> TraceReplay:
    entries = (
        TraceEntry(at_ns=0, prompt_tokens=30, output_tokens=3, prefix_ids=(0, 1, 2)),
        TraceEntry(at_ns=5, prompt_tokens=25, output_tokens=4, prefix_ids=(0, 1, 9)),
        TraceEntry(at_ns=9, prompt_tokens=12, output_tokens=5),
    )
    return TraceReplay(file_sha256=DIGEST, prefix_block_tokens=10, entries=entries)


def test_trace_says_when_how_long_and_what_is_shared() -> None:
    requests = plan_requests(cell(traffic=trace(), request_count=3), NONCE, VOCABULARY).measured
    assert [one.due_ns for one in requests] == [0, 5, 9]
    assert [one.requested_tokens for one in requests] == [3, 4, 5]
    first, second, third = (one.prompt for one in requests)
    assert [len(prompt) for prompt in (first, second, third)] == [30, 25, 12]  # type: ignore[arg-type]
    # Two blocks of ten are named alike; the third is not.
    assert 20 <= common(first, second) < 23
    assert common(first, third) < 3


def test_warm_up_of_a_trace_shares_nothing_with_it() -> None:
    planned = cell(traffic=trace(), request_count=3, warmup_requests=2)
    requests = plan_requests(planned, NONCE, VOCABULARY)
    warm = requests.warmup[0][0]
    assert all(common(warm.prompt, one.prompt) < 3 for one in requests.measured)


def test_rounds_of_warm_up_have_prompts_of_their_own() -> None:
    requests = plan_requests(cell(warmup_requests=2, warmup_rounds=3), NONCE, VOCABULARY)
    assert [len(batch) for batch in requests.warmup] == [2, 2, 2]
    indices = [one.index for batch in requests.warmup for one in batch]
    assert len(set(indices)) == 6
    assert min(indices) >= 1_000_000


FILE = tuple(FilePrompt(text=f"text {number}") for number in range(12))


def test_file_prompts_are_each_sent_once_in_an_order_of_the_nonce() -> None:
    planned = cell(prompt_file_sha256=DIGEST, warmup_requests=2)
    requests = plan_requests(planned, NONCE, VOCABULARY, {DIGEST: FILE})
    measured = [one.prompt for one in requests.measured]
    warm = [one.prompt for batch in requests.warmup for one in batch]
    assert len({*measured, *warm}) == 8
    other = plan_requests(planned, OTHER, VOCABULARY, {DIGEST: FILE})
    assert measured != [one.prompt for one in other.measured]
    body = request_body(requests.measured[0], "m")
    assert body["prompt"].startswith("text ")
    assert requests.measured[0].token_count is None


def test_file_prompts_go_to_their_endpoint() -> None:
    chat = FilePrompt(messages=(("system", "s"), ("user", "u")))
    ids = FilePrompt(token_ids=(4, 5))
    planned = cell(endpoint="chat", prompt_file_sha256=DIGEST, request_count=1)
    (one,) = plan_requests(planned, NONCE, VOCABULARY, {DIGEST: (chat, ids)}).measured
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    assert request_body(one, "m")["messages"] == messages
    planned = cell(prompt_file_sha256=DIGEST, request_count=1)
    (one,) = plan_requests(planned, NONCE, VOCABULARY, {DIGEST: (chat, ids)}).measured
    assert request_body(one, "m")["prompt"] == [4, 5]
    assert one.token_count == 2


def test_file_that_is_not_there_or_too_short_is_a_sentence() -> None:
    planned = cell(prompt_file_sha256=DIGEST)
    with pytest.raises(UsageError, match=f"no file has the digest {DIGEST}"):
        plan_requests(planned, NONCE, VOCABULARY)
    with pytest.raises(UsageError, match=r"needs 6 prompts for completions.*holds 5"):
        plan_requests(planned, NONCE, VOCABULARY, {DIGEST: FILE[:5]})


def test_order_holds_every_number_once() -> None:
    order = order_of(NONCE, "cell", 50)
    assert sorted(order) == list(range(50))
    assert order != tuple(range(50))
    assert order != order_of(NONCE, "other", 50)
    assert order_of(NONCE, "cell", 0) == ()
