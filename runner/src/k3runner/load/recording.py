"""From a capture to its record. Pure: everything that has a time was stamped before."""

from dataclasses import dataclass

from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.request import RequestRecord
from k3runner.load.answer import Answer, FailureKind
from k3runner.load.capture import Capture
from k3runner.load.planned import PlannedRequest
from k3runner.load.sse import PLAIN_END, PLAIN_START, SseError, SseParser, is_plain

__all__ = ["Recorded", "answer_of", "record_of"]

_HTTP_OK = 200
_TEXT_LIMIT = 20_000
_QUOTED_BYTES = 300


@dataclass(frozen=True)
class Recorded:
    """A request and what is not kept of it."""

    record: RequestRecord
    """Goes into the journal."""
    full_text: str
    """Everything that was generated, reasoning included, to be counted again."""


def record_of(
    request: PlannedRequest, capture: Capture, *, boot_id: str, cell_started_ns: int
) -> Recorded:
    """The record of one exchange.

    Args:
        request: What was asked.
        capture: What came.
        boot_id: Boot that served it.
        cell_started_ns: Start of the cell on the monotonic clock.
    """
    answer = answer_of(capture, streamed=request.streamed)
    due_tokens = request.requested_tokens if request.exact_length else None
    text = answer.text()
    record = RequestRecord(
        boot_id=boot_id,
        cell_id=request.cell_id,
        index=request.index,
        variant=request.variant,
        endpoint=request.endpoint,
        prompt_sha256=sha256_hex(canonical_json(request.content)),
        requested_tokens=request.requested_tokens,
        exact_length=request.exact_length,
        temperature=request.temperature,
        seed=request.seed,
        due_at_ns=None if capture.due_ns is None else capture.due_ns - cell_started_ns,
        sent_at_ns=capture.sent_ns - cell_started_ns,
        ended_at_ns=capture.ended_ns - capture.sent_ns,
        events=answer.events(),
        counted_by=answer.counted_by,
        outcome=answer.outcome(request.token_count, due_tokens),
        token_ids=answer.token_ids(),
        logprobs=answer.logprobs(),
        text=text[:_TEXT_LIMIT] if request.json_schema is not None else None,
        text_sha256=answer.text_sha256(),
        text_tokens=None,
    )
    return Recorded(record, answer.full_text())


def answer_of(capture: Capture, *, streamed: bool) -> Answer:
    """Reads what came as an answer; what does not fit makes it a failed one.

    Args:
        capture: What came.
        streamed: Whether events were asked for.
    """
    answer = Answer()
    if capture.status not in (0, _HTTP_OK):
        text = bytes(capture.content[:_QUOTED_BYTES]).decode("utf-8", "replace")
        answer.fail("http_status", f"Status 200 was due, found {capture.status}: {text}")
    elif streamed:
        _take_events(answer, capture)
    elif capture.ending == "complete":
        last_ns = capture.stamps[-1] if capture.stamps else capture.ended_ns
        answer.take_block(last_ns - capture.sent_ns, bytes(capture.content))
    # The first failure wins, so what a stream said about itself comes before how it ended.
    if capture.ending == "timeout":
        answer.fail("timeout", f"The server made no progress: {capture.detail}.")
    elif capture.ending == "malformed":
        answer.fail("malformed_event", f"The response is not HTTP: {capture.detail}.")
    elif capture.ending == "unreachable":
        answer.fail("connection", f"No connection could be made: {capture.detail}.")
    elif capture.ending == "closed":
        kind: FailureKind = "cut_stream" if capture.status else "connection"
        answer.fail(kind, f"The response did not end: {capture.detail}.")
    return answer


def _take_events(answer: Answer, capture: Capture) -> None:
    content = bytes(capture.content)
    if capture.ending == "complete" and is_plain(content):
        _take_plain_events(answer, capture, content)
        return
    parser = SseParser()
    sent_ns = capture.sent_ns
    try:
        for stamp, piece in capture.pieces():
            for event in parser.feed(piece):
                answer.take_event(stamp - sent_ns, event)
            if answer.failed:
                return
    except SseError as error:
        answer.fail("malformed_event", str(error))
    if capture.ending == "complete" and not parser.finish():
        answer.fail("cut_stream", "The stream ended inside an event.")


def _take_plain_events(answer: Answer, capture: Capture, content: bytes) -> None:
    """The same for a stream of nothing but `data: ` lines, at a fraction of the cost."""
    sent_ns, ends, stamps = capture.sent_ns, capture.ends, capture.stamps
    start = piece = 0
    while start < len(content):
        end = content.find(PLAIN_END, start) + len(PLAIN_END)
        # An event came with the piece that holds its last byte.
        while ends[piece] < end:
            piece += 1
        line = content[start + len(PLAIN_START) : end - len(PLAIN_END)]
        answer.take_plain_event(stamps[piece] - sent_ns, line)
        if answer.failed:
            return
        start = end
