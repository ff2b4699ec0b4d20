"""The requests of the example run: what a client of a small healthy server would record."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.plan import CellPlan, FeatureCell, GreedyCell, ServingCell
from k3bundle.request import Completed, Failed, RequestRecord, StreamEvent, TokenLogprob
from k3bundle.subject import ArmName

__all__ = ["RequestContext", "requests_of_cell"]

Variant = Literal["warmup", "measured", "stream", "block", "seeded", "seeded_repeat", "other_seed"]

_FEATURE_VARIANTS: Final[dict[str, tuple[Variant, ...]]] = {
    "structured_output": ("stream",),
    "sampling": ("seeded", "seeded_repeat", "other_seed"),
    "streaming": ("stream", "block"),
    "chat": ("stream", "block"),
}
_FIRST_TOKEN_NS: Final = 40_000_000
_TOKEN_NS: Final = 5_000_000
_WARMED_UP_NS: Final = 100_000_000
"""When the measured part of a serving cell begins."""
_DIGEST_TOKENS: Final = 8
"""Tokens that are made from one digest; answers of more come in a few large pieces."""
_PIECES: Final = 3
_DECISIVE_POSITION: Final = 4
"""Position of a greedy answer at which `greedy_differs` and `greedy_gap_nats` bite."""


@dataclass(frozen=True)
class RequestContext:
    """What the requests of one boot depend on."""

    nonce: str
    boot_id: str
    arm: ArmName
    speed: float
    """Speed of the boot relative to the others."""
    greedy_gap_nats: float
    """Gap between the best two tokens at the position where `greedy_differs` bites."""
    greedy_differs: bool
    failed_serving_requests: int
    structured_output_broken: bool


def requests_of_cell(cell: CellPlan, context: RequestContext) -> Iterator[RequestRecord]:
    """Yield the records of one cell in one boot, in the order they were sent."""
    if isinstance(cell, ServingCell):
        for index in range(cell.warmup_requests):
            yield _request(cell, context, index, "warmup")
        yield from _closed_loop(cell, context)
    elif isinstance(cell, GreedyCell):
        for index in range(len(cell.prompt_tokens)):
            yield _request(cell, context, index, "measured")
    elif isinstance(cell, FeatureCell):
        for index in range(cell.request_count):
            for variant in _FEATURE_VARIANTS[cell.feature]:
                yield _request(cell, context, index, variant)


def _closed_loop(cell: ServingCell, context: RequestContext) -> Iterator[RequestRecord]:
    """The measured requests; each is sent when a stream is free."""
    free_at = [_WARMED_UP_NS] * cell.concurrency
    for index in range(cell.request_count):
        failed = index < context.failed_serving_requests
        record = _request(cell, context, index, "measured", failed=failed)
        stream = free_at.index(min(free_at))
        yield record.model_copy(update={"sent_at_ns": free_at[stream]})
        free_at[stream] += record.ended_at_ns


def _request(
    cell: ServingCell | GreedyCell | FeatureCell,
    context: RequestContext,
    index: int,
    variant: Variant,
    *,
    failed: bool = False,
) -> RequestRecord:
    tokens = _token_ids(cell, context, index, variant)
    text = _text(cell, context, index, tokens)
    events = () if failed else _events(len(tokens), context, index, variant)
    sampling = isinstance(cell, FeatureCell) and cell.feature == "sampling"
    structured = isinstance(cell, FeatureCell) and cell.feature == "structured_output"
    return RequestRecord(
        boot_id=context.boot_id,
        cell_id=cell.cell_id,
        index=index,
        variant=variant,
        endpoint="chat"
        if isinstance(cell, FeatureCell) and cell.feature == "chat"
        else "completions",
        prompt_sha256=sha256_hex(
            canonical_json([context.nonce, cell.cell_id, index, variant == "warmup"])
        ),
        requested_tokens=cell.output_tokens,
        exact_length=not isinstance(cell, FeatureCell),
        temperature=1.0 if sampling else 0.0,
        seed=(8 if variant == "other_seed" else 7) if sampling else None,
        due_at_ns=None,
        sent_at_ns=index * 60_000_000,
        ended_at_ns=events[-1].at_ns + 1_000_000 if events else 2_000_000,
        events=events,
        counted_by="usage" if _is_long(cell) else "token_ids",
        outcome=_failure() if failed else _completion(cell, index, len(tokens)),
        token_ids=None if failed or _is_long(cell) else tokens,
        logprobs=_logprobs(tokens, context) if isinstance(cell, GreedyCell) else None,
        text=text if structured else None,
        text_sha256=sha256_hex(b"" if failed else text.encode()),
        text_tokens=None,
    )


def _is_long(cell: CellPlan) -> bool:
    """Whether a timed answer is so long that its server does not return its token ids."""
    return isinstance(cell, ServingCell) and cell.output_tokens > _DIGEST_TOKENS


def _token_ids(
    cell: CellPlan, context: RequestContext, index: int, variant: Variant
) -> tuple[int, ...]:
    seed = "other" if variant == "other_seed" else "same"
    key = f"{context.nonce}/{cell.cell_id}/{index}/{seed}"
    first = hashlib.sha256(key.encode()).digest()[:_DIGEST_TOKENS]
    count = cell.output_tokens if isinstance(cell, ServingCell | GreedyCell) else _DIGEST_TOKENS
    tokens = tuple((first * (count // _DIGEST_TOKENS + 1))[:count])
    differs = context.greedy_differs and context.arm == "candidate" and index == 0
    if isinstance(cell, GreedyCell) and differs:
        head, tail = tokens[:_DECISIVE_POSITION], tokens[_DECISIVE_POSITION + 1 :]
        return (*head, (tokens[_DECISIVE_POSITION] + 1) % 256, *tail)
    return tokens


def _text(cell: CellPlan, context: RequestContext, index: int, tokens: tuple[int, ...]) -> str:
    if isinstance(cell, FeatureCell) and cell.feature == "structured_output":
        broken = context.structured_output_broken and context.arm == "candidate" and index == 0
        text = json.dumps(_instance(cell.json_schema or {}, tokens[0]))
        return text[: text.index(":") + 2] if broken else text
    return " ".join(str(token) for token in tokens)


def _instance(schema: dict[str, Any], number: int) -> Any:
    """A value that satisfies a schema of objects, arrays, whole numbers and truth values."""
    if schema.get("type") == "object":
        return {name: _instance(one, number) for name, one in schema["properties"].items()}
    if schema.get("type") == "array":
        return [_instance(schema["items"], number)] * schema.get("minItems", 0)
    if schema.get("type") == "boolean":
        return number % 2 == 0
    return min(number, schema.get("maximum", number))


def _events(
    count: int, context: RequestContext, index: int, variant: Variant
) -> tuple[StreamEvent, ...]:
    first = int((_FIRST_TOKEN_NS + 1_000_000 * index) / context.speed)
    step = int(_TOKEN_NS / context.speed)
    if variant == "block":
        return (StreamEvent(at_ns=first + step * (count - 1), tokens=count, channel="content"),)
    if count <= _DIGEST_TOKENS:
        ends = list(range(1, count + 1))
    else:
        ends = [1 + (count - 1) * piece // _PIECES for piece in range(_PIECES + 1)]
    return tuple(
        StreamEvent(at_ns=first + step * (end - 1), tokens=end - begin, channel="content")
        for begin, end in pairwise((0, *ends))
    )


def _logprobs(tokens: tuple[int, ...], context: RequestContext) -> tuple[TokenLogprob, ...]:
    gaps = [0.5] * len(tokens)
    gaps[_DECISIVE_POSITION] = context.greedy_gap_nats
    return tuple(
        TokenLogprob(token_id=token, logprob=-0.25, runner_up_logprob=-0.25 - gap)
        for token, gap in zip(tokens, gaps, strict=True)
    )


def _completion(cell: ServingCell | GreedyCell | FeatureCell, index: int, count: int) -> Completed:
    lengths = (
        cell.prompt_tokens
        if isinstance(cell, GreedyCell)
        else (cell.prompt_tokens if isinstance(cell, ServingCell) else 16,) * (index + 1)
    )
    return Completed(
        finish_reason="stop" if isinstance(cell, FeatureCell) else "length",
        prompt_tokens=lengths[index],
        completion_tokens=count,
        cached_prompt_tokens=0,
    )


def _failure() -> Failed:
    detail = "Expected status 200, found 500."
    return Failed(error="http_status", detail=detail)
