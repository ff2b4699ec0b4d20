"""What the end of an engine's log says. Reads a file; the choice of the line is pure."""

import re
from pathlib import Path

__all__ = ["last_log_line", "meaningful_line", "unknown_variables"]

_TAIL_BYTES = 64 * 1024
_LINE_LIMIT = 400
_ERROR = re.compile(r"\b[A-Za-z_.]*(?:Error|Exception)\b: .+|error: .+")
_VARIABLE = re.compile(r"Unknown vLLM environment variable detected: (\w+)")
_PREFIX = re.compile(r"^\((?:\w+ )*pid=\d+\) ?")


def last_log_line(log: Path) -> str:
    """The most telling line at the end of a log, shortened."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return "(no log)"
    return meaningful_line(text)


def meaningful_line(text: str) -> str:
    """The last line that names an error; else the last one with words in it."""
    lines = [_PREFIX.sub("", line).strip() for line in text.splitlines()]
    telling = [line for line in lines if _ERROR.search(line)]
    worded = [line for line in lines if re.search(r"[A-Za-z]{3}", line)]
    chosen = (telling or worded or ["(the log is empty)"])[-1]
    return chosen[:_LINE_LIMIT]


def unknown_variables(text: str) -> tuple[str, ...]:
    """Environment variables that the engine says it does not know, sorted."""
    return tuple(sorted(set(_VARIABLE.findall(text))))
