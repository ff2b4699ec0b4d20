"""The wire format of SSH: length-prefixed fields, each in its one encoding."""

import struct

__all__ = ["SignatureError", "WireReader", "wire_string"]


class SignatureError(ValueError):
    """A signature is malformed, of a refused kind, or not of this message."""


class WireReader:
    """Reads the length-prefixed fields of the SSH wire format."""

    def __init__(self, data: bytes) -> None:
        """Begins at the first byte."""
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next bytes.

        Raises:
            SignatureError: There are not so many.
        """
        piece = self._data[self._at : self._at + size]
        if len(piece) != size:
            raise SignatureError(f"Expected {size} bytes in a field, found {len(piece)}.")
        self._at += size
        return piece

    def uint32(self) -> int:
        """The next number of four bytes."""
        return int.from_bytes(self.take(4), "big")

    def string(self) -> bytes:
        """The next field: a length, and so many bytes."""
        return self.take(self.uint32())

    def mpint(self) -> int:
        """The next non-negative number.

        Raises:
            SignatureError: It is negative, or not in its shortest form.
        """
        data = self.string()
        value = int.from_bytes(data, "big")
        minimal = value.to_bytes(value.bit_length() // 8 + 1, "big") if value else b""
        if data != minimal:
            raise SignatureError("Expected a non-negative number in its shortest form.")
        return value

    def end(self) -> None:
        """Check that nothing follows.

        Raises:
            SignatureError: Something does.
        """
        rest = len(self._data) - self._at
        if rest:
            raise SignatureError(f"Expected the end of the field, found {rest} more bytes.")


def wire_string(data: bytes) -> bytes:
    """Bytes as a field: their length, then they."""
    return struct.pack(">I", len(data)) + data
