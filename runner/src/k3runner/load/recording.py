"""From a capture to its record. Pure: everything that has a time was stamped before."""

from dataclasses import dataclass

from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.request import RequestRecord
from k3runner.load.answer import Answer, FailureKind
from k3runner.load.capture import Capture
from k3runner.load.framing import FramingError, bodies, plain_events
from k3runner.load.planned import PlannedRequest
from k3runner.load.sse import SseError, SseParser

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
    try:
        _take_body(answer, capture, streamed=streamed)
    except FramingError as error:
        answer.fail("malformed_event", f"The response is not HTTP: {error}.")
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


def _take_body(answer: Answer, capture: Capture, *, streamed: bool) -> None:
    ok = capture.status == _HTTP_OK
    if ok and streamed and capture.ending == "complete":
        plain = plain_events(capture)
        if plain is not None:
            answer.take_plain_events(plain.stamps, plain.data, capture.sent_ns)
            return
    pieces = bodies(capture)
    content = b"".join(piece for _, piece in pieces)
    if capture.status and not ok:
        text = content[:_QUOTED_BYTES].decode("utf-8", "replace")
        answer.fail("http_status", f"Status 200 was due, found {capture.status}: {text}")
    elif streamed:
        _take_events(answer, capture, pieces)
    elif capture.ending == "complete":
        last_ns = pieces[-1][0] if pieces else capture.ended_ns
        answer.take_block(last_ns - capture.sent_ns, content)


def _take_events(answer: Answer, capture: Capture, pieces: list[tuple[int, bytes]]) -> None:
    parser = SseParser()
    try:
        for stamp, piece in pieces:
            for event in parser.feed(piece):
                answer.take_event(stamp - capture.sent_ns, event)
            if answer.failed:
                return
    except SseError as error:
        answer.fail("malformed_event", str(error))
    if capture.ending == "complete" and not parser.finish():
        answer.fail("cut_stream", "The stream ended inside an event.")
