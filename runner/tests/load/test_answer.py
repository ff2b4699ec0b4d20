import json
from typing import Any

import pytest

from k3bundle.request import Completed, Failed
from k3runner.load.answer import Answer
from k3runner.load.sse import ServerSentEvent

MS = 1_000_000


def failure(answer: Answer) -> Failed:
    outcome = answer.outcome()
    assert isinstance(outcome, Failed)
    return outcome


def completion(answer: Answer) -> Completed:
    outcome = answer.outcome()
    assert isinstance(outcome, Completed)
    return outcome


def usage(completion: int, prompt: int = 5, cached: int | None = None) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": completion, **details}


def take(answer: Answer, *chunks: tuple[int, dict[str, Any] | str]) -> Answer:
    for at_ms, chunk in chunks:
        data = chunk if isinstance(chunk, str) else json.dumps(chunk)
        answer.take_event(at_ms * MS, ServerSentEvent("message", data))
    return answer


def text_chunk(
    text: str, ids: list[int] | None = None, finish: str | None = None, **more: Any
) -> dict[str, Any]:
    choice: dict[str, Any] = {"text": text, "finish_reason": finish} | (
        {"token_ids": ids} if ids else {}
    )
    return {"choices": [choice], **more}


def test_b1_chunk_of_six_tokens_counts_six() -> None:
    answer = take(
        Answer(),
        (100, text_chunk("a", [1])),
        (107, text_chunk("b", [2, 3, 4, 5, 6, 7])),
        (114, text_chunk("c", [8, 9, 10, 11, 12, 13], finish="length")),
        (114, {"choices": [], "usage": usage(13)}),
        (114, "[DONE]"),
    )
    assert [(event.at_ns // MS, event.tokens) for event in answer.events()] == [
        (100, 1),
        (107, 6),
        (114, 6),
    ]
    assert isinstance(answer.outcome(), Completed)
    assert answer.token_ids() == tuple(range(1, 14))
    assert answer.counted_by == "token_ids"


def test_b1_usage_deltas_count_where_ids_are_missing() -> None:
    answer = take(
        Answer(),
        (1, text_chunk("a", usage=usage(1))),
        (2, text_chunk("", usage=usage(7))),
        (3, text_chunk("c", finish="stop", usage=usage(8))),
        (3, "[DONE]"),
    )
    # The second chunk has no text, half of a UTF-8 character for example, and still six tokens.
    assert [event.tokens for event in answer.events()] == [1, 6, 1]
    assert answer.token_ids() is None
    assert answer.outcome().status == "completed"


def test_b3_all_tokens_in_one_chunk_is_one_event() -> None:
    answer = take(
        Answer(),
        (50, text_chunk("abc", [1, 2, 3], finish="length", usage=usage(3))),
        (50, "[DONE]"),
    )
    assert [(event.at_ns, event.tokens) for event in answer.events()] == [(50 * MS, 3)]


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_b4_reasoning_opens_the_decode_window(key: str) -> None:
    answer = take(
        Answer(),
        (1, {"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
        (2, {"choices": [{"delta": {key: "x"}}]}),
        (3, {"choices": [{"delta": {key: "x"}}]}),
        (4, {"choices": [{"delta": {key: "x"}}]}),
        (5, {"choices": [{"delta": {"content": "42"}, "finish_reason": "stop"}]}),
        (6, {"choices": [], "usage": usage(4)}),
        (6, "[DONE]"),
    )
    channels = [(event.at_ns // MS, event.channel, event.tokens) for event in answer.events()]
    assert channels == [
        (2, "reasoning", 1),
        (3, "reasoning", 1),
        (4, "reasoning", 1),
        (5, "content", 1),
    ]
    assert answer.text() == "42"
    assert answer.full_text() == "xxx42"
    assert answer.counted_by == "usage"
    assert answer.outcome().status == "completed"


def test_b4_stream_with_only_reasoning_completes_with_empty_content() -> None:
    answer = take(
        Answer(),
        (1, {"choices": [{"delta": {"reasoning": "hm"}, "finish_reason": "length"}]}),
        (1, {"choices": [], "usage": usage(1)}),
        (1, "[DONE]"),
    )
    assert answer.text() == ""
    assert completion(answer).finish_reason == "length"


def test_b12_missing_usage_fails() -> None:
    answer = take(Answer(), (1, text_chunk("a", [1], finish="length")), (2, "[DONE]"))
    assert failure(answer).error == "no_usage"


def test_b12_usage_is_the_truth_and_a_disagreement_fails() -> None:
    answer = take(
        Answer(),
        (1, text_chunk("a", [1, 2], finish="length")),
        (2, {"choices": [], "usage": usage(5)}),
        (2, "[DONE]"),
    )
    outcome = failure(answer)
    assert outcome.error == "malformed_event"
    assert outcome.detail == "Usage says 5 tokens, the events carried 2."


def test_unknown_counts_are_spread_and_called_estimated() -> None:
    answer = take(
        Answer(),
        (1, text_chunk("a")),
        (2, text_chunk("b")),
        (3, text_chunk("c", finish="length")),
        (3, {"choices": [], "usage": usage(8)}),
        (3, "[DONE]"),
    )
    assert [event.tokens for event in answer.events()] == [2, 3, 3]
    assert answer.counted_by == "estimate"
    assert completion(answer).completion_tokens == 8


def test_b13_error_inside_a_200_stream_fails_and_later_data_cannot_repair_it() -> None:
    answer = take(
        Answer(),
        (1, text_chunk("a", [1])),
        (2, {"error": {"message": "EngineDeadError", "code": 500}}),
        (3, text_chunk("b", [2], finish="length", usage=usage(2))),
        (3, "[DONE]"),
    )
    outcome = failure(answer)
    assert outcome.error == "error_event"
    assert "EngineDeadError" in outcome.detail


@pytest.mark.parametrize(
    ("finish", "done", "missing"), [("length", False, "[DONE]"), (None, True, "finish reason")]
)
def test_b13_stream_without_its_end_fails(finish: str | None, done: bool, missing: str) -> None:
    answer = take(Answer(), (1, text_chunk("a", [1], finish=finish, usage=usage(1))))
    if done:
        take(answer, (2, "[DONE]"))
    outcome = failure(answer)
    assert outcome.error == "cut_stream"
    assert missing in outcome.detail


@pytest.mark.parametrize(
    "data",
    [
        "{",
        "[]",
        '{"choices": 3}',
        '{"choices": [3]}',
        '{"choices": [{"text": 5}]}',
        '{"choices": [{"text": "a", "token_ids": [-1]}]}',
        '{"choices": [{"text": "a", "token_ids": [true]}]}',
        '{"choices": [], "usage": {"prompt_tokens": "5", "completion_tokens": 1}}',
        '{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": NaN}}',
        '{"choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [-1]}}]}',
    ],
)
def test_b13_malformed_event_fails(data: str) -> None:
    outcome = failure(take(Answer(), (1, data)))
    assert outcome.error == "malformed_event"


def test_usage_that_goes_backwards_fails() -> None:
    answer = take(
        Answer(), (1, text_chunk("a", usage=usage(4))), (2, text_chunk("b", usage=usage(3)))
    )
    assert failure(answer).error == "malformed_event"


def test_logprobs_are_by_id_with_the_best_other_token() -> None:
    logprobs = {
        "tokens": ["token_id:7"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"token_id:7": -0.5, "token_id:3": -0.75}],
    }
    chunk = text_chunk("a", [7], finish="length", usage=usage(1))
    chunk["choices"][0]["logprobs"] = logprobs
    answer = take(Answer(), (1, chunk), (1, "[DONE]"))
    (only,) = answer.logprobs() or ()
    assert (only.token_id, only.logprob, only.runner_up_logprob) == (7, -0.5, -0.75)


def test_block_answer_is_one_event() -> None:
    answer = Answer()
    body = {
        "choices": [{"message": {"content": "hi\0"}, "finish_reason": "stop", "token_ids": [4, 5]}],
        "usage": usage(2, cached=3),
    }
    answer.take_block(9, json.dumps(body).encode())
    assert [(event.at_ns, event.tokens) for event in answer.events()] == [(9, 2)]
    assert completion(answer).cached_prompt_tokens == 3
    assert answer.text() == "hi\ufffd"


def test_prompt_that_the_server_counts_differently_fails() -> None:
    chunk = text_chunk("a", [7], finish="length", usage=usage(1, prompt=6))
    outcome = take(Answer(), (1, chunk), (1, "[DONE]")).outcome(sent_tokens=5)
    assert isinstance(outcome, Failed)
    assert outcome.detail == "Usage says 6 prompt tokens, 5 were sent."


def test_logprobs_name_the_tokens_where_no_ids_are_sent() -> None:
    logprobs = {
        "tokens": ["token_id:7"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"token_id:7": -0.5, "token_id:3": -0.75}],
    }
    chunk = text_chunk("a", finish="length", usage=usage(1))
    chunk["choices"][0]["logprobs"] = logprobs
    assert take(Answer(), (1, chunk), (1, "[DONE]")).token_ids() == (7,)


def test_logprobs_that_are_not_all_there_are_dropped() -> None:
    logprobs = {"tokens": ["token_id:7"], "token_logprobs": [-1], "top_logprobs": [None]}
    chunk = text_chunk("a", [7, 8], finish="length", usage=usage(2))
    chunk["choices"][0]["logprobs"] = logprobs
    answer = take(Answer(), (1, chunk), (1, "[DONE]"))
    assert answer.logprobs() is None
    assert answer.token_ids() == (7, 8)


def test_b12_ids_that_usage_does_not_confirm_fail() -> None:
    answer = take(
        Answer(),
        (1, text_chunk("a", [1], usage=usage(3))),
        (2, text_chunk("b", [2], finish="length", usage=usage(6))),
        (2, "[DONE]"),
    )
    assert failure(answer).detail == "Usage says 6 tokens, 2 token ids came."


def test_b12_end_token_without_an_id_is_no_disagreement() -> None:
    answer = take(
        Answer(),
        (1, text_chunk("a", [1], usage=usage(1))),
        (2, text_chunk("b", [2], finish="stop", usage=usage(3))),
        (2, "[DONE]"),
    )
    assert completion(answer).completion_tokens == 3


def test_ids_in_some_events_only_count_by_usage() -> None:
    answer = take(
        Answer(),
        (1, text_chunk("a", [1], usage=usage(1))),
        (2, text_chunk("b", usage=usage(4), finish="length")),
        (2, "[DONE]"),
    )
    assert answer.counted_by == "usage"
    assert [event.tokens for event in answer.events()] == [1, 3]
    assert answer.token_ids() is None


@pytest.mark.parametrize("due", [2, 4])
def test_b11_answer_of_another_length_than_due_fails(due: int) -> None:
    chunk = text_chunk("abc", [1, 2, 3], finish="length", usage=usage(3))
    outcome = take(Answer(), (1, chunk), (1, "[DONE]")).outcome(due_tokens=due)
    assert isinstance(outcome, Failed)
    assert outcome.error == "wrong_length"
    assert outcome.detail == f"The answer has 3 tokens, {due} were asked for."


def test_b3_one_token_of_one_completes() -> None:
    chunk = text_chunk("a", [1], finish="length", usage=usage(1))
    outcome = take(Answer(), (1, chunk), (1, "[DONE]")).outcome(due_tokens=1)
    assert isinstance(outcome, Completed)
