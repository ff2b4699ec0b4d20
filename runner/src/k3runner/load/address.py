"""Where requests go, and their bytes on the wire. Pure."""

from dataclasses import dataclass
from urllib.parse import urlsplit

__all__ = ["Address", "parse_address", "request_bytes"]

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Address:
    """One server."""

    host: str
    """Name or address, without brackets."""
    port: int
    """TCP port."""
    tls: bool
    """Whether the connection is encrypted."""
    authority: str
    """Value of the Host header."""
    prefix: str
    """Path that comes before every path, without trailing slash; mostly empty."""


def parse_address(url: str) -> Address:
    """Reads a base URL such as `http://127.0.0.1:8000`.

    Raises:
        ValueError: It is no http or https URL with a host.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"expected a URL like http://host:port, found `{url}`")
    return Address(
        host=parts.hostname,
        port=parts.port or _PORTS[parts.scheme],
        tls=parts.scheme == "https",
        authority=parts.netloc.rpartition("@")[2],
        prefix=parts.path.rstrip("/"),
    )


def request_bytes(address: Address, path: str, body: bytes) -> bytes:
    """A whole POST request.

    No encoding is offered, so that what arrives is what was sent, event by event.
    """
    head = (
        f"POST {address.prefix}{path} HTTP/1.1\r\n"
        f"Host: {address.authority}\r\n"
        "Content-Type: application/json\r\n"
        "Accept: */*\r\n"
        f"Content-Length: {len(body)}\r\n"
        "\r\n"
    )
    return head.encode("ascii") + body
