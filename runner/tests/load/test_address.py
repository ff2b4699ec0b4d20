import pytest

from k3runner.load.address import Address, parse_address, request_bytes


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8000", Address("127.0.0.1", 8000, False, "127.0.0.1:8000", "")),
        ("http://[::1]:8000/", Address("::1", 8000, False, "[::1]:8000", "")),
        ("https://example.com/v0", Address("example.com", 443, True, "example.com", "/v0")),
        ("http://me:secret@example.com", Address("example.com", 80, False, "example.com", "")),
    ],
)
def test_parse_address_reads_a_base_url(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://example.com", "http://"])
def test_parse_address_refuses_what_is_no_url(url: str) -> None:
    with pytest.raises(ValueError, match="expected a URL"):
        parse_address(url)


def test_request_bytes_are_a_whole_request_without_encodings() -> None:
    sent = request_bytes(parse_address("http://127.0.0.1:1/x"), "/v1/completions", b'{"a":1}')
    head, _, body = sent.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /x/v1/completions HTTP/1.1"
    assert b"Host: 127.0.0.1:1" in lines
    assert b"Content-Length: 7" in lines
    assert not [line for line in lines if line.lower().startswith(b"accept-encoding")]
    assert body == b'{"a":1}'
