"""Whether a text is an address that can be asked; said before anything is sent. Pure."""

from typing import Final
from urllib.parse import SplitResult, urlsplit

from k3runner.errors import UsageError
from k3runner.visible import one_line

__all__ = ["check_address"]

_LONGEST_SHOWN: Final = 200


def check_address(url: str, where: str) -> None:
    """Checks an address of a server.

    Args:
        url: The address.
        where: What it was given as, for the sentence.

    Raises:
        UsageError: It is no http address, or its host or port cannot be one.
    """
    shown = one_line(url, _LONGEST_SHOWN)
    try:
        parts = urlsplit(url)
        wrong = _wrong(parts)
    except ValueError as error:
        # A bracket that is not closed, a port that is no number or too large.
        wrong = one_line(str(error), _LONGEST_SHOWN).rstrip(".")
    else:
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"{where} must look like http://host:port, found `{shown}`.", "Correct the URL."
            )
    if wrong:
        raise UsageError(f"{where} is no address, found `{shown}`: {wrong}.", "Correct the URL.")


def _wrong(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if parts.port == 0:
        return "port 0 is none"
    if any(not letter.isprintable() or letter.isspace() for letter in parts.netloc):
        return "its host has a space or a control character"
    try:
        host.encode("idna")
    except UnicodeError:
        return "its host cannot be a name"
    return ""
