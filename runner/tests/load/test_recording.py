"""Captures that no server was needed for."""

from k3bundle.request import RequestRecord
from k3runner.load.capture import Capture
from k3runner.load.prompt_file import FilePrompt
from k3runner.load.recording import record_of

from .exchanges import MS, failure, planned

ONE = b'data: {"choices":[{"text":"a","token_ids":[1],"finish_reason":null}]}\n\n'
REST = (
    b'data: {"choices":[{"text":"b","token_ids":[2],"finish_reason":"length"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)


def capture(*pieces: tuple[int, bytes], ended_ms: int = 90) -> Capture:
    found = Capture(0, sent_ns=1_000 * MS, status=200, ending="complete")
    found.ended_ns = found.sent_ns + ended_ms * MS
    for at_ms, content in pieces:
        found.content += content
        found.stamps.append(found.sent_ns + at_ms * MS)
        found.ends.append(len(found.content))
    return found


def record(found: Capture, cell_started_ms: int = 900) -> RequestRecord:
    return record_of(
        planned(tokens=2), found, boot_id="boot-0.0", cell_started_ns=cell_started_ms * MS
    ).record


def test_times_count_from_the_cell_and_from_the_request() -> None:
    found = record(capture((20, ONE), (50, REST)))
    assert found.sent_at_ns == 100 * MS
    assert found.ended_at_ns == 90 * MS
    assert [event.at_ns for event in found.events] == [20 * MS, 50 * MS]
    assert found.due_at_ns is None


def test_event_counts_when_its_last_byte_came() -> None:
    found = record(capture((20, ONE[:30]), (40, ONE[30:] + REST)))
    assert [event.at_ns for event in found.events] == [40 * MS, 40 * MS]


def test_request_with_a_schedule_keeps_it() -> None:
    late = capture((20, ONE), (50, REST))
    late.due_ns = late.sent_ns - 7 * MS
    assert record(late).due_at_ns == 93 * MS


def test_whole_answer_before_the_connection_was_cut_is_still_cut() -> None:
    found = capture((20, ONE + REST))
    found.ending, found.detail = "closed", "the server closed the connection"
    assert failure(record(found)).error == "cut_stream"


def test_error_in_the_stream_is_told_rather_than_how_it_ended() -> None:
    found = capture((20, b'data: {"error":{"message":"out of memory"}}\n\n'))
    found.ending = "closed"
    outcome = failure(record(found))
    assert outcome.error == "error_event"
    assert "out of memory" in outcome.detail


def test_empty_body_is_a_cut_stream() -> None:
    assert failure(record(capture())).error == "cut_stream"


def test_empty_block_is_malformed() -> None:
    request = planned(variant="block", tokens=2)
    found = record_of(request, capture(), boot_id="boot-0.0", cell_started_ns=0).record
    assert failure(found).error == "malformed_event"


def test_prompt_length_is_checked_where_ids_were_sent() -> None:
    request = planned(prompt=(1, 2, 3, 4), tokens=2)
    found = record_of(request, capture((9, ONE + REST)), boot_id="boot-0.0", cell_started_ns=0)
    assert failure(found.record).detail == "Usage says 3 prompt tokens, 4 were sent."
    text = planned(tokens=2)
    text = type(text)(**{**vars(text), "prompt": FilePrompt(text="abc")})
    found = record_of(text, capture((9, ONE + REST)), boot_id="boot-0.0", cell_started_ns=0)
    assert found.record.outcome.status == "completed"
    assert found.full_text == "ab"
