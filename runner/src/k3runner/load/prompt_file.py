"""Prompts from a file: one JSON object per line. Parsing is pure; the caller reads the file.

    {"prompt": "text to go on with"}
    {"prompt": [12, 7, 901]}
    {"messages": [{"role": "user", "content": "a question"}]}

`messages` go to the chat endpoint, `prompt` to completions. Other keys are refused: a file with
expected answers or lengths is for another purpose, and would be half obeyed.
"""

import json
from dataclasses import dataclass
from typing import Any

from k3runner.errors import UsageError

__all__ = ["FilePrompt", "parse_prompts"]

_HINT = "Write one JSON object per line with `prompt` (text or token ids) or `messages`."


@dataclass(frozen=True)
class FilePrompt:
    """One prompt of a file. Exactly one of its fields is set."""

    text: str | None = None
    """Text for the completions endpoint."""
    token_ids: tuple[int, ...] | None = None
    """Token ids for the completions endpoint."""
    messages: tuple[tuple[str, str], ...] | None = None
    """(role, content) of each message for the chat endpoint."""


def parse_prompts(content: bytes, name: str) -> tuple[FilePrompt, ...]:
    """Reads the prompts of a file.

    Args:
        content: The whole file.
        name: Its name, for messages.

    Raises:
        UsageError: A line is no prompt, or there is none.
    """
    prompts: list[FilePrompt] = []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            prompts.append(_prompt(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{name} line {number} is no prompt: {error}.", _HINT) from error
    if not prompts:
        raise UsageError(f"{name} holds no prompt.", _HINT)
    return tuple(prompts)


def _prompt(found: Any) -> FilePrompt:
    if not isinstance(found, dict) or len(found) != 1:
        raise ValueError("an object with one key was expected")
    ((key, value),) = found.items()
    if key == "prompt" and isinstance(value, str) and value:
        return FilePrompt(text=value)
    if key == "prompt" and isinstance(value, list) and value:
        if not all(type(token) is int and token >= 0 for token in value):
            raise ValueError("token ids must be whole numbers")
        return FilePrompt(token_ids=tuple(value))
    if key == "messages" and isinstance(value, list) and value:
        return FilePrompt(messages=tuple(_message(message) for message in value))
    raise ValueError(f"`{key}` holds no prompt")


def _message(found: Any) -> tuple[str, str]:
    role, content = found["role"], found["content"]
    if not isinstance(role, str) or not isinstance(content, str) or len(found) != 2:  # noqa: PLR2004
        raise ValueError("a message has a `role` and a `content`, both text")
    return role, content
