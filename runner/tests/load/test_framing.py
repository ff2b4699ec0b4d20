import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3runner.load.capture import Capture
from k3runner.load.framing import FramingError, bodies, plain_events
from k3runner_testing.transcript import chunk, event

END = chunk(b"")


def capture(*pieces: bytes, chunked: bool = True) -> Capture:
    """Pieces that came at 1, 2, 3..."""
    found = Capture(0, sent_ns=0, status=200, ending="complete", chunked=chunked)
    for at, piece in enumerate(pieces, start=1):
        found.content += piece
        found.stamps.append(at)
        found.ends.append(len(found.content))
    return found


def test_plain_events_have_the_time_of_their_last_byte() -> None:
    first, second = event("one"), event("two")
    found = plain_events(capture(first[:4], first[4:] + second[:1], second[1:] + END))
    assert found is not None
    assert (found.data, found.stamps) == ([b"one", b"two"], [2, 3])


@pytest.mark.parametrize(
    "pieces",
    [
        (event("one"),),
        (chunk(b": ping\n\n"), event("one"), END),
        (event("one"), chunk(b"data: tw"), chunk(b"o\n\n"), END),
        (chunk(b"data: one\n\ndata: two\n\n"), END),
        (chunk(b"data: one\r\n\r\n"), END),
        (chunk(b"event: error\ndata: one\n\n"), END),
        (chunk(b"data:one\n\n"), END),
        (chunk(b"data: \xff\n\n"), END),
        (b"c\r\ndata: one\n\n\r\n", END),
        (event("one"), b"junk", END),
        (b"zz\r\ndata: one\n\n\r\n", END),
        (b"\r\ndata: one\n\n\r\n", END),
        (b"+b\r\ndata: one\n\n\r\n", END),
        (b"b;x=y\r\ndata: one\n\n\r\n", END),
        (event("one") + event("two\n"), END),
    ],
)
def test_other_streams_are_not_plain(pieces: tuple[bytes, ...]) -> None:
    assert plain_events(capture(*pieces)) is None


def test_stream_without_chunks_is_not_plain() -> None:
    assert plain_events(capture(b"data: one\n\n", chunked=False)) is None


def test_bodies_without_framing_keep_their_times() -> None:
    first = chunk(b"abc")
    found = bodies(capture(first[:4], first[4:] + chunk(b"de") + END))
    assert found == [(1, b"a"), (2, b"bc"), (2, b"de")]
    assert bodies(capture(b"ab", b"c", chunked=False)) == [(1, b"ab"), (2, b"c")]


def test_bodies_of_no_chunks_raise() -> None:
    with pytest.raises(FramingError):
        bodies(capture(b"no chunk\r\n"))
    with pytest.raises(FramingError):
        bodies(capture(b"3\r\nabcd\r\n"))


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))),
    st.data(),
)
def test_both_ways_find_the_same_events(texts: list[str], draw: st.DataObject) -> None:
    content = b"".join(event(text) for text in texts) + END
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(content)), max_size=6)))
    pieces = [content[a:b] for a, b in zip((0, *cuts), (*cuts, len(content)), strict=True)]
    found = capture(*(piece for piece in pieces if piece))
    plain = plain_events(found)
    assert plain is not None
    assert [data.decode() for data in plain.data] == texts
    slow = b"".join(body for _, body in bodies(found))
    assert slow.decode() == "".join(f"data: {text}\n\n" for text in texts)
    assert plain.stamps == sorted(plain.stamps)
