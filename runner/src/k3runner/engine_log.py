"""What the end of an engine's log says. Reads a file; the choice of the line is pure."""

import re
from pathlib import Path

from k3runner.visible import cut_at_word

__all__ = ["last_log_line", "last_words", "telling_line", "unknown_variables"]

_TAIL_BYTES = 64 * 1024
_LINE_LIMIT = 400
_PROCESS = re.compile(r"^\((?:\w+ )*pid=\d+\) ?")
_LEVEL = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s[^\]]*\]\s?|^INFO:\s+")
_ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?:: .*)?$")
_USAGE = re.compile(r"^\S.*: error: .+")
_POINTS_ELSEWHERE = re.compile(r"[Ss]ee .*(?:above|stack trace|root cause)")
_WORDS = re.compile(r"[A-Za-z]{3}")
_VARIABLE = re.compile(r"Unknown vLLM environment variable detected: (\w+)")


def last_log_line(log: Path) -> str:
    """The line at the end of a log that says why the engine ended, shortened."""
    return telling_line(_tail(log))


def last_words(log: Path) -> str:
    """The last line of a log with words in it: what the engine does now."""
    worded = [line for line in _plain_lines(_tail(log)) if _WORDS.search(line)]
    return cut_at_word(worded[-1], _LINE_LIMIT) if worded else "no output yet"


def telling_line(text: str) -> str:
    """The last line that names an error; else the last one with words in it."""
    lines = _plain_lines(text)
    telling = [line for line in lines if _ERROR.search(line) or _USAGE.search(line)]
    causes = [line for line in telling if not _POINTS_ELSEWHERE.search(line)]
    worded = [line for line in lines if _WORDS.search(line)]
    chosen = (causes or telling or worded or ["(its log is empty)"])[-1]
    return cut_at_word(chosen, _LINE_LIMIT)


def unknown_variables(text: str) -> tuple[str, ...]:
    """Environment variables that the engine says it does not know, sorted."""
    return tuple(sorted(set(_VARIABLE.findall(text))))


def _plain_lines(text: str) -> list[str]:
    """Lines without the names of process, level, time and source file."""
    return [_LEVEL.sub("", _PROCESS.sub("", line.strip())).strip() for line in text.splitlines()]


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
