import pytest

from k3runner.load.sse import ServerSentEvent, SseError, SseParser

TRANSCRIPT = (
    ": ping\r\n\r\n"
    'data: {"text":"ä€😀"}\r\n\r\n'
    'data:{"x":1}\n\n'
    "event: error\ndata: a\ndata: b\n\n"
    "data: [DONE]\r\r"
    "data: end\n\n"
).encode()
EVENTS = [
    ServerSentEvent("message", '{"text":"ä€😀"}'),
    ServerSentEvent("message", '{"x":1}'),
    ServerSentEvent("error", "a\nb"),
    ServerSentEvent("message", "[DONE]"),
    ServerSentEvent("message", "end"),
]


def test_feed_whole_transcript() -> None:
    parser = SseParser()
    assert parser.feed(TRANSCRIPT) == EVENTS
    assert parser.finish()


def test_feed_cut_at_every_byte_gives_the_same_events() -> None:
    for cut in range(len(TRANSCRIPT) + 1):
        parser = SseParser()
        events = parser.feed(TRANSCRIPT[:cut]) + parser.feed(TRANSCRIPT[cut:])
        assert events == EVENTS, cut


def test_feed_byte_by_byte() -> None:
    parser = SseParser()
    events = [
        event for at in range(len(TRANSCRIPT)) for event in parser.feed(TRANSCRIPT[at : at + 1])
    ]
    assert events == EVENTS


@pytest.mark.parametrize("rest", [b"data: {", b"data: {}\n", b"da"])
def test_finish_inside_an_event_says_so(rest: bytes) -> None:
    parser = SseParser()
    parser.feed(b"data: 1\n\n" + rest)
    assert not parser.finish()


def test_feed_bytes_that_are_not_utf8_raises() -> None:
    with pytest.raises(SseError, match="not UTF-8"):
        SseParser().feed(b"data: \xff\n\n")
