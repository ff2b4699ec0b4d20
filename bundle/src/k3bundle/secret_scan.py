"""Finds access tokens and private keys that were left in a file.

A second line behind the scrubbing that happens before anything is written: it only refuses.
"""

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["secrets_in"]

# Each pattern starts with a literal, which is looked for 40 times faster than anything else, looks
# back from there where it must, and repeats within bounds, so that no input makes it slow.
_PATTERNS: Final[tuple[tuple[str, bytes, re.Pattern[bytes]], ...]] = (
    ("Hugging Face token", b"hf_", re.compile(rb"hf_[A-Za-z0-9]{30,60}")),
    ("GitHub token", b"gh", re.compile(rb"gh[pousr]_[A-Za-z0-9]{36,100}")),
    ("GitHub token", b"github_pat_", re.compile(rb"github_pat_[A-Za-z0-9_]{30,100}")),
    ("AWS access key", b"AKIA", re.compile(rb"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])")),
    ("API key", b"sk-", re.compile(rb"sk-(?<![A-Za-z0-9]sk-)[A-Za-z0-9_-]{40,200}")),
    ("bearer token", b"earer ", re.compile(rb"earer (?<=[Bb]earer )[A-Za-z0-9._~+/-]{12,400}")),
    ("private key", b"PRIVATE KEY-----", re.compile(rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----")),
    ("password in a URL", b"://", re.compile(rb"://[^\s/:@\"<>]{1,60}:[^\s/@\"<>]{3,100}@")),
)


def secrets_in(content: bytes) -> Iterator[tuple[str, int]]:
    """Yield the kind and the line number of each secret; the secret itself is not repeated."""
    for kind, literal, pattern in _PATTERNS:
        if literal not in content:
            continue
        for match in pattern.finditer(content):
            yield kind, content.count(b"\n", 0, match.start()) + 1
