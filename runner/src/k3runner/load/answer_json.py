"""Reads the JSON of completions and chat answers, streamed or whole. Pure."""

from typing import Any

from k3bundle.request import TokenLogprob

__all__ = [
    "MalformedAnswerError",
    "chunk_text",
    "chunk_token_ids",
    "chunk_usage",
    "first_choice",
    "object_of",
    "parse_logprobs",
]

_TOKEN_ID = "token_id:"  # noqa: S105


class MalformedAnswerError(Exception):
    """The JSON is not an OpenAI-shaped answer; the text says what was found."""


def object_of(value: object, what: str) -> dict[str, Any]:
    """The value as a JSON object."""
    if not isinstance(value, dict):
        raise MalformedAnswerError(f"{what} is not a JSON object")
    return value


def first_choice(chunk: dict[str, Any]) -> dict[str, Any]:
    """The first choice; empty for a chunk without one, such as the last usage chunk."""
    choices = chunk.get("choices") or []
    if not isinstance(choices, list):
        raise MalformedAnswerError("`choices` is not a list")
    return object_of(choices[0], "a choice") if choices else {}


def chunk_text(choice: dict[str, Any]) -> tuple[str, str]:
    """Content and reasoning of a choice, for every place in which servers put them."""
    part = choice.get("delta") or choice.get("message") or {}
    content = choice.get("text") or object_of(part, "a delta").get("content") or ""
    reasoning = part.get("reasoning") or part.get("reasoning_content") or ""
    if not isinstance(content, str) or not isinstance(reasoning, str):
        raise MalformedAnswerError("generated text is not a string")
    return content, reasoning


def chunk_token_ids(choice: dict[str, Any]) -> list[int]:
    """Token ids of a choice; empty when the server sends none."""
    ids = choice.get("token_ids") or []
    if not isinstance(ids, list) or not all(type(one) is int and one >= 0 for one in ids):
        raise MalformedAnswerError("`token_ids` is not a list of whole numbers")
    return ids


def chunk_usage(chunk: dict[str, Any]) -> dict[str, Any] | None:
    """Usage as `prompt_tokens`, `completion_tokens` and `cached`; None when not sent."""
    usage = chunk.get("usage")
    if usage is None:
        return None
    found = object_of(usage, "usage")
    details = object_of(found.get("prompt_tokens_details") or {}, "prompt_tokens_details")
    numbers = {
        "prompt_tokens": found.get("prompt_tokens"),
        "completion_tokens": found.get("completion_tokens") or 0,
        "cached": details.get("cached_tokens"),
    }
    for name, number in numbers.items():
        optional = name == "cached" and number is None
        if not optional and (type(number) is not int or number < 0):
            raise MalformedAnswerError(f"usage `{name}` is {number!r}")
    return numbers


def parse_logprobs(choice: dict[str, Any]) -> list[TokenLogprob]:
    """Log-probabilities of a completions choice whose tokens are written as `token_id:N`."""
    logprobs = choice.get("logprobs")
    if logprobs is None:
        return []
    found = object_of(logprobs, "logprobs")
    try:
        return [
            _position(token, logprob, top or {})
            for token, logprob, top in zip(
                found["tokens"], found["token_logprobs"], found["top_logprobs"], strict=True
            )
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedAnswerError(f"logprobs are not by token id: {error!r}") from error


def _position(token: str, logprob: float, top: dict[str, float]) -> TokenLogprob:
    others = [value for name, value in top.items() if name != token]
    # Rounding can lift a log-probability of a sure token a hair above 0.
    return TokenLogprob(
        token_id=int(token.removeprefix(_TOKEN_ID)),
        logprob=min(0.0, float(logprob)),
        runner_up_logprob=min(0.0, float(max(others))) if others else None,
    )
