"""From the events of one answer to its record: tokens per event, finish, usage, outcome. Pure.

A chunk is not a token: tokens come from usage deltas or token ids, and usage and token ids must
agree. An answer counts as completed only when its finish reason, its usage and its end marker were
all seen and it is as long as was asked for.
"""

import hashlib
from typing import Literal

from pydantic import TypeAdapter

from k3bundle.request import (
    Completed,
    Failed,
    RequestOutcome,
    StreamEvent,
    TokenLogprob,
)
from k3runner.load.answer_json import (
    Chunk,
    MalformedAnswerError,
    Usage,
    parse_chunk,
    parse_chunks,
    parse_logprobs,
)
from k3runner.load.sse import ServerSentEvent

__all__ = ["Answer", "CountedBy", "FailureKind"]

Channel = Literal["content", "reasoning"]
FailureKind = Literal[
    "http_status",
    "error_event",
    "cut_stream",
    "no_usage",
    "malformed_event",
    "wrong_length",
    "timeout",
    "connection",
]
CountedBy = Literal["token_ids", "usage", "estimate"]
_DETAIL_LIMIT = 500
_DONE = "[DONE]"
_DONE_BYTES = b"[DONE]"
_EVENTS: TypeAdapter[tuple[StreamEvent, ...]] = TypeAdapter(tuple[StreamEvent, ...])
"""Checks all events of an answer in one call, which is most of the cost of a record."""


class Answer:
    """Collects one answer; the first failure wins and later data cannot repair it."""

    def __init__(self) -> None:
        self._arrivals: list[tuple[int, int | None, Channel]] = []
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._token_ids: list[int] = []
        self._logprobs: list[TokenLogprob] = []
        self._usage: Usage | None = None
        self._counted = 0
        self._finish_reason: str | None = None
        self._done = False
        self._without_ids = 0
        self._failure: Failed | None = None

    @property
    def failed(self) -> bool:
        """True once a failure was seen; reading on is then useless."""
        return self._failure is not None

    @property
    def started(self) -> bool:
        """True once a token has arrived."""
        return bool(self._arrivals)

    def fail(self, error: FailureKind, detail: str) -> None:
        """Notes a failure, unless one was noted before."""
        if self._failure is None:
            self._failure = Failed(error=error, detail=_clean(detail)[:_DETAIL_LIMIT])

    def take_event(self, at_ns: int, event: ServerSentEvent) -> None:
        """Takes one event of a stream.

        Args:
            at_ns: Monotonic nanoseconds since the request was sent.
            event: The event.
        """
        if event.name == "error":
            self.fail("error_event", f"The stream carried an error: {event.data}")
        elif event.data == _DONE:
            self._done = True
        else:
            self._take_json(at_ns, event.data)

    def take_plain_events(self, stamps: list[int], data: list[bytes], sent_ns: int) -> None:
        """Takes all events of a stream that has nothing else in it, at once.

        Args:
            stamps: When each event came, on the monotonic clock.
            data: What each event holds: one line of JSON, or the end marker.
            sent_ns: When the request was sent.
        """
        lines = data[:-1] if data and data[-1] == _DONE_BYTES else data
        try:
            chunks = parse_chunks(lines)
        except MalformedAnswerError:
            # One by one, so that the event that is to blame is named.
            for stamp, line in zip(stamps, data, strict=True):
                self.take_event(stamp - sent_ns, ServerSentEvent("message", _text_of(line)))
            return
        for stamp, chunk, line in zip(stamps, chunks, lines, strict=False):
            if chunk.error is not None:
                self.fail("error_event", f"The stream carried an error: {_text_of(line)}")
            if self.failed:
                return
            try:
                self._take_chunk(stamp - sent_ns, chunk)
            except MalformedAnswerError as error:
                self.fail("malformed_event", f"Not what is due: {error}: {_text_of(line)}")
        self._done |= len(lines) < len(data)

    def take_block(self, at_ns: int, body: bytes) -> None:
        """Takes the whole body of an answer that was not streamed."""
        self._take_json(at_ns, body)
        self._done = True

    def outcome(
        self, sent_tokens: int | None = None, due_tokens: int | None = None
    ) -> RequestOutcome:
        """How the request ended, after everything was taken.

        Args:
            sent_tokens: Length of the prompt, where it was sent as token ids.
            due_tokens: Length that the answer must have; None where it may end early.
        """
        if self._failure is not None:
            return self._failure
        if not self._done or self._finish_reason is None:
            missing = "finish reason" if self._finish_reason is None else "[DONE]"
            return Failed(
                error="cut_stream",
                detail=f"The stream ended without a {missing} after {self._counted} tokens.",
            )
        if self._usage is None:
            return Failed(error="no_usage", detail="No usage was sent; tokens are not guessed.")
        completion, prompt = self._usage.completion_tokens or 0, self._usage.prompt_tokens
        disagreement = self._disagreement(completion)
        if disagreement is None and sent_tokens is not None and prompt != sent_tokens:
            disagreement = f"Usage says {prompt} prompt tokens, {sent_tokens} were sent."
        if disagreement is not None:
            return Failed(error="malformed_event", detail=disagreement)
        if due_tokens is not None and completion != due_tokens:
            return Failed(
                error="wrong_length",
                detail=f"The answer has {completion} tokens, {due_tokens} were asked for.",
            )
        return Completed(
            finish_reason=self._finish_reason,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_prompt_tokens=self._usage.cached_tokens,
        )

    def _disagreement(self, completion: int) -> str | None:
        counted = sum(self._tokens())
        if counted != completion:
            return f"Usage says {completion} tokens, the events carried {counted}."
        ids = len(self._token_ids)
        # Usage may count an end token that is not returned; nothing else.
        if self._all_have_ids and not 0 <= completion - ids <= 1:
            return f"Usage says {completion} tokens, {ids} token ids came."
        return None

    def events(self) -> tuple[StreamEvent, ...]:
        """The token-carrying events in order of arrival.

        A server that counts nothing per event gets its final usage spread evenly; `counted_by`
        then says so.
        """
        return _EVENTS.validate_python(
            tuple(
                {"at_ns": at_ns, "tokens": tokens, "channel": channel}
                for (at_ns, _, channel), tokens in zip(self._arrivals, self._tokens(), strict=True)
            )
        )

    @property
    def counted_by(self) -> CountedBy:
        """What says how many tokens each event carried.

        `estimate`: nothing did, and there were not as many events as tokens.
        """
        if self._all_have_ids:
            return "token_ids"
        unknown = any(tokens is None for _, tokens, _ in self._arrivals)
        total = self._usage.completion_tokens if self._usage else None
        return "estimate" if unknown and total != len(self._arrivals) else "usage"

    def token_ids(self) -> tuple[int, ...] | None:
        """Generated ids; None when the server sent none, or not all of them."""
        expected = (self._usage.completion_tokens or 0) if self._usage else self._counted
        # Log-probabilities are by token id, so they name the tokens where nothing else does.
        found = self._token_ids or [position.token_id for position in self._logprobs]
        return tuple(found) if found and len(found) == expected else None

    def logprobs(self) -> tuple[TokenLogprob, ...] | None:
        """Log-probabilities of the generated ids; None when the server did not send them all."""
        named = tuple(position.token_id for position in self._logprobs)
        return tuple(self._logprobs) if named and named == self.token_ids() else None

    def text(self) -> str:
        """The generated content, without reasoning, as text that every JSON reader takes."""
        return _clean("".join(self._text))

    def full_text(self) -> str:
        """Reasoning and content, as text that every JSON reader takes."""
        return _clean("".join(self._reasoning) + "".join(self._text))

    def text_sha256(self) -> str:
        """Digest of the content as UTF-8."""
        return hashlib.sha256(self.text().encode("utf-8")).hexdigest()

    @property
    def _all_have_ids(self) -> bool:
        return bool(self._token_ids) and self._without_ids == 0

    def _take_json(self, at_ns: int, content: bytes | str) -> None:
        try:
            chunk = parse_chunk(content)
            if chunk.error is not None:
                self.fail("error_event", f"The stream carried an error: {_text_of(content)}")
                return
            self._take_chunk(at_ns, chunk)
        except MalformedAnswerError as error:
            self.fail("malformed_event", f"Not what is due: {error}: {_text_of(content)}")

    def _take_chunk(self, at_ns: int, chunk: Chunk) -> None:
        usage, delta = chunk.usage, None
        if usage is not None:
            delta = (usage.completion_tokens or 0) - self._counted
            if delta < 0:
                raise MalformedAnswerError("usage went backwards")
            self._usage = usage
        # The last usage event has no choice: what it adds was never seen in an event.
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        content, reasoning = choice.text or "", ""
        if choice.text is None:
            content, reasoning = choice.content, choice.reasoning
            self._reasoning.append(reasoning)
        self._text.append(content)
        if choice.finish_reason is not None:
            self._finish_reason = _clean(choice.finish_reason)[:40]
        if choice.logprobs is not None:
            self._logprobs.extend(parse_logprobs(choice))
        ids = choice.token_ids
        if ids:
            self._token_ids.extend(ids)
        tokens = delta if delta is not None else len(ids) if ids else None
        if tokens == 0 or (tokens is None and not content and not reasoning):
            return
        channel: Channel = "reasoning" if reasoning and not content else "content"
        self._arrivals.append((at_ns, tokens, channel))
        self._counted += tokens or 0
        self._without_ids += not ids

    def _tokens(self) -> list[int]:
        known = [tokens for _, tokens, _ in self._arrivals]
        unknown = [at for at, tokens in enumerate(known) if tokens is None]
        if not unknown:
            return [tokens or 0 for tokens in known]
        total = (self._usage.completion_tokens or 0) if self._usage else len(known)
        left = max(0, total - sum(tokens or 0 for tokens in known))
        share, extra = divmod(left, len(unknown))
        # Later events get the remainder: the first one opens the decode window.
        first_bigger = len(unknown) - extra
        spread = {at: share + (order >= first_bigger) for order, at in enumerate(unknown)}
        return [spread[at] if tokens is None else tokens for at, tokens in enumerate(known)]


def _text_of(content: bytes | str) -> str:
    return content if isinstance(content, str) else content.decode("utf-8", "replace")


def _clean(text: str) -> str:
    """Replaces what strict JSON refuses: NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
