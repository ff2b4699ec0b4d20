"""One request as the client saw it: the raw record from which every number is derived."""

from typing import Annotated, Literal

from pydantic import Field

from k3bundle.record import CellId, Count, Nanoseconds, Record, Sha256, ShortText
from k3bundle.run import BootId

__all__ = [
    "Completed",
    "Failed",
    "RequestOutcome",
    "RequestRecord",
    "StreamEvent",
    "TokenLogprob",
]


class StreamEvent(Record):
    """One server-sent event that carried generated tokens."""

    at_ns: Nanoseconds
    """Monotonic time since the request was sent."""
    tokens: Count
    """Tokens in the event, from token ids or usage deltas; a chunk of k tokens counts k."""
    channel: Literal["content", "reasoning"]
    """Which part of the answer it carried."""


class TokenLogprob(Record):
    """The chosen token at one position of a greedy request, and how decided the choice was."""

    token_id: Count
    """The chosen token."""
    logprob: float = Field(le=0)
    """Its log-probability, in nats."""
    runner_up_logprob: float | None = Field(default=None, le=0)
    """Log-probability of the best other token, in nats; None when the server gave none."""


class Completed(Record):
    """The stream ended as the protocol says: finish reason, usage and end marker were seen."""

    status: Literal["completed"] = "completed"
    """Tag."""
    finish_reason: str = Field(max_length=40)
    """The server's finish reason, for example `length`."""
    prompt_tokens: Count
    """Prompt tokens by server usage."""
    completion_tokens: Count
    """Completion tokens by server usage."""
    cached_prompt_tokens: Count | None
    """Prompt tokens served from the prefix cache; None when the server did not say."""


class Failed(Record):
    """The request fell short: an error, a cut stream, a missing end marker, missing usage, or an
    answer that is shorter or longer than was asked for.
    """

    status: Literal["failed"] = "failed"
    """Tag."""
    error: Literal[
        "http_status",
        "error_event",
        "cut_stream",
        "no_usage",
        "malformed_event",
        "wrong_length",
        "timeout",
        "connection",
    ]
    """What went wrong."""
    detail: ShortText
    """One sentence with what was expected and found."""


RequestOutcome = Annotated[Completed | Failed, Field(discriminator="status")]
"""How a request ended."""


class RequestRecord(Record):
    """One line of `requests.jsonl`."""

    boot_id: BootId
    """Boot that served it."""
    cell_id: CellId
    """Cell it belongs to."""
    index: Count
    """Prompt number within the cell; equal numbers have equal prompts in every boot."""
    variant: Literal[
        "warmup", "measured", "stream", "block", "seeded", "seeded_repeat", "other_seed"
    ]
    """Why it was sent. Feature cells send several variants of one prompt."""
    endpoint: Literal["completions", "chat"]
    """Which endpoint."""
    prompt_sha256: Sha256
    """Digest of the canonical JSON of the prompt (token ids or messages)."""
    requested_tokens: int = Field(ge=1)
    """`max_tokens` of the request."""
    exact_length: bool
    """True when end-of-sequence was ignored, so exactly `requested_tokens` are due."""
    temperature: float = Field(ge=0)
    """Sampling temperature."""
    seed: Count | None
    """Sampling seed."""
    due_at_ns: Nanoseconds | None
    """Monotonic time from the start of the cell to the moment the request was due; None where it
    was sent as soon as a stream was free."""
    sent_at_ns: Nanoseconds
    """Monotonic time from the start of the cell to the moment the request was sent."""
    ended_at_ns: Nanoseconds
    """Monotonic time since the request was sent at which the stream ended."""
    events: tuple[StreamEvent, ...]
    """Token-carrying events in order of arrival; one for a non-streamed answer."""
    counted_by: Literal["token_ids", "usage", "estimate"]
    """What says how many tokens each event carried: the ids that it held, the growth of the usage
    that it named, or nothing. Then the final usage is spread evenly and times per token are
    estimates. Usage is the truth for the whole answer in all three cases."""
    outcome: RequestOutcome
    """How it ended."""
    token_ids: tuple[Count, ...] | None
    """Generated token ids; None when the server does not return them."""
    logprobs: tuple[TokenLogprob, ...] | None
    """Per-position log-probabilities of greedy requests; None elsewhere."""
    text: Annotated[str, Field(max_length=20_000)] | None
    """Generated content where a check needs it (structured output); None elsewhere."""
    text_sha256: Sha256
    """Digest of the generated content as UTF-8."""
    text_tokens: Count | None
    """Tokens that the server's own tokenizer finds in everything that was generated, as a
    cross-check of usage; None where it was not asked."""
