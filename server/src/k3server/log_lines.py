"""Lines of the log, as text or as JSON, with everything taken out that looks like a secret."""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Final, Literal

__all__ = ["LogForm", "formatter", "without_secrets"]

LogForm = Literal["text", "json"]
"""How lines are written."""

# Bounded repeats, so that no line makes them slow.
_SECRETS: Final = (
    (re.compile(r"k3r_([0-9a-f]{16})_[0-9a-f]{1,64}"), r"k3r_\1_<secret>"),
    (re.compile(r"(?i)\b(bearer|basic) [A-Za-z0-9._~+/=-]{8,8192}"), r"\1 <secret>"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{8,8192}\.[A-Za-z0-9_-]{8,2048}"),
     "<identity-token>"),
    (re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255})"), "<github-token>"),
    (re.compile(r"(?<=://)[^\s/:@]{1,60}:[^\s/@]{1,100}(?=@)"), "<secret>"),
)  # fmt: skip


def without_secrets(text: str) -> str:
    """The text with tokens and passwords replaced."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def formatter(form: LogForm) -> logging.Formatter:
    """What makes a line of a record."""
    return _JsonLines() if form == "json" else _TextLines("%(levelname)s %(message)s")


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line, and the trace of an error below it."""
        return without_secrets(super().format(record))


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One JSON object on one line, whatever the message holds."""
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "at_utc": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname,
            "logger": record.name,
            "message": without_secrets(record.getMessage()),
        }
        if record.exc_info:
            line["error"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(line)
