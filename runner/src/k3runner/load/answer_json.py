"""Reads the JSON of completions and chat answers, streamed or whole. Pure.

Events are decoded into these types directly: what is not named here is skipped without making an
object, and what has another type is refused while it is read.
"""

from typing import Annotated, Any

import msgspec

from k3bundle.request import TokenLogprob

__all__ = [
    "Choice",
    "Chunk",
    "MalformedAnswerError",
    "Usage",
    "parse_chunk",
    "parse_chunks",
    "parse_logprobs",
]

_TOKEN_ID = "token_id:"  # noqa: S105
Whole = Annotated[int, msgspec.Meta(ge=0)]


class MalformedAnswerError(Exception):
    """The JSON is not an OpenAI-shaped answer; the text says what was found."""


class _PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: Whole | None = None


class Usage(msgspec.Struct, frozen=True):
    """Token counts as a server says them."""

    prompt_tokens: Whole
    """Tokens of the prompt."""
    completion_tokens: Whole | None = None
    """Tokens so far; servers leave it out before the first."""
    prompt_tokens_details: _PromptDetails | None = None
    """Holds the tokens that came from the prefix cache."""

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens from the prefix cache; None when not sent."""
        details = self.prompt_tokens_details
        return None if details is None else details.cached_tokens


class _Part(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class Choice(msgspec.Struct, frozen=True):
    """The part of an answer that one event carries, or all of it."""

    text: str | None = None
    """Text of a completion."""
    delta: _Part | None = None
    """Text of a streamed chat answer."""
    message: _Part | None = None
    """Text of a whole chat answer."""
    token_ids: list[Whole] | None = None
    """Generated ids, where they were asked for and the server knows how."""
    finish_reason: str | None = None
    """Why the answer ends; None before its end."""
    logprobs: Any = None
    """Log-probabilities, where they were asked for."""

    @property
    def content(self) -> str:
        """Generated text without reasoning."""
        part = self.delta or self.message
        return self.text or (part.content if part is not None else None) or ""

    @property
    def reasoning(self) -> str:
        """Generated reasoning, for every place in which servers put it."""
        part = self.delta or self.message
        return "" if part is None else part.reasoning or part.reasoning_content or ""


class Chunk(msgspec.Struct, frozen=True):
    """One event of a stream, or the body of an answer that was not streamed."""

    choices: list[Choice] | None = None
    """One for each answer that was asked for, so one; none in the last usage event."""
    usage: Usage | None = None
    """Token counts so far."""
    error: Any = None
    """What went wrong inside the stream."""


_DECODER = msgspec.json.Decoder(Chunk)


def parse_chunk(content: bytes | str) -> Chunk:
    """Reads an event or a body.

    Raises:
        MalformedAnswerError: It is not one.
    """
    try:
        return _DECODER.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(str(error)) from error


def parse_chunks(lines: list[bytes]) -> list[Chunk]:
    """Reads many events in one call.

    Raises:
        MalformedAnswerError: One of them is none.
    """
    try:
        chunks: list[Chunk] = _DECODER.decode_lines(b"\n".join(lines))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(str(error)) from error
    # A line without anything is skipped by the decoder and is no event.
    if len(chunks) != len(lines):
        raise MalformedAnswerError(f"{len(lines)} lines hold {len(chunks)} events")
    return chunks


def parse_logprobs(choice: Choice) -> list[TokenLogprob]:
    """Log-probabilities of a completions choice whose tokens are written as `token_id:N`."""
    found = choice.logprobs
    if found is None:
        return []
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
