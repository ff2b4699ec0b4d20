"""Rules for request records: each is possible, none is missing, repeated or made easier."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from k3bundle import layout
from k3bundle.bundle import RunRecords
from k3bundle.canonical import sha256_hex
from k3bundle.finding import Finding, FindingCode
from k3bundle.journal import Journal
from k3bundle.plan import FeatureCell, GreedyCell, KernelCell, ServingCell
from k3bundle.request import Completed, RequestRecord
from k3bundle.run import CellFinished
from k3bundle.schedule import (
    RunnableCell,
    exact_prompt_tokens,
    prompt_count,
    requested_tokens,
)

__all__ = ["completeness_findings", "request_findings"]

_HINT: Final = "Take the run folder as the runner wrote it; nothing in it is edited by hand."
_WALL_SLACK_NS: Final = 1_000_000_000
_WALL_SLACK_SHARE: Final = 0.1
_CLOCK_SLACK_NS: Final = 1_000_000


def request_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    """Yield what is wrong with single requests, and with requests that must be alike."""
    seen: set[tuple[str, str, int, str]] = set()
    prompts: dict[tuple[str, bool, int], str] = {}
    for number, request in enumerate(records.requests, start=1):
        where = f"{layout.REQUESTS} line {number}"
        key = (request.boot_id, request.cell_id, request.index, request.variant)
        if key in seen:
            yield _bad(where, "Expected one record per boot, cell, index and variant, found two.")
        seen.add(key)
        if request.boot_id not in journal.started:
            why = f"Expected a started boot, found {request.boot_id}."
            yield _finding("boot-out-of-plan", where, why)
        cell = journal.cells.get(request.cell_id)
        if cell is None or isinstance(cell, KernelCell):
            why = f"Expected a planned cell that sends requests, found {request.cell_id}."
            yield _finding("cell-out-of-plan", where, why)
            continue
        prompt = (request.cell_id, request.variant == "warmup", request.index)
        first = prompts.setdefault(prompt, request.prompt_sha256)
        if first != request.prompt_sha256:
            yield _bad(where, f"Expected prompt {first} as in other boots, found another.")
        yield from (_bad(where, why) for why in _time_problems(request))
        yield from (_bad(where, why) for why in _answer_problems(request))
        if request.variant != "warmup":
            yield from (_bad(where, why) for why in _asked_problems(request, cell))


def _time_problems(request: RequestRecord) -> Iterator[str]:
    times = [event.at_ns for event in request.events]
    if times != sorted(times):
        yield "Expected events in order of time, found one that goes back."
    if times and request.ended_at_ns < max(times):
        yield "Expected the end at or after the last event, found it before."


def _answer_problems(request: RequestRecord) -> Iterator[str]:
    tokens = request.token_ids
    if isinstance(request.outcome, Completed):
        streamed = sum(event.tokens for event in request.events)
        counted = request.outcome.completion_tokens
        known = counted if tokens is None else len(tokens)
        # Usage may count an end token that is not returned; nothing else.
        if not 0 <= counted - known <= (0 if request.exact_length else 1):
            yield f"Expected {counted} token ids by usage, found {known}."
        if streamed not in {counted, known}:
            yield f"Expected events with {counted} tokens by usage, found {streamed}."
    logprobs = request.logprobs
    if logprobs is not None:
        if tokens is None or len(tokens) != len(logprobs):
            found = "none" if tokens is None else str(len(tokens))
            yield f"Expected {len(logprobs)} token ids, one per log-probability, found {found}."
        elif any(t != p.token_id for t, p in zip(tokens, logprobs, strict=True)):
            yield "Expected the log-probabilities of the generated tokens, found those of others."
    if request.text is not None and sha256_hex(request.text.encode()) != request.text_sha256:
        yield "Expected a text with the digest of the record, found another text."


def _asked_problems(request: RequestRecord, cell: RunnableCell) -> Iterator[str]:
    """What was asked must be what the plan says; an easier question is another test."""
    measured = request.variant == "measured"
    if measured == isinstance(cell, FeatureCell):
        yield f"Expected a variant of a {cell.kind} cell, found {request.variant}."
    if request.index >= prompt_count(cell):
        yield f"Expected an index below {prompt_count(cell)}, found {request.index}."
        return
    due = requested_tokens(cell, request.index)
    if request.requested_tokens != due:
        yield f"Expected {due} requested tokens, found {request.requested_tokens}."
    if isinstance(cell, FeatureCell):
        return
    if request.temperature != 0 and isinstance(cell, GreedyCell):
        yield f"Expected temperature 0 in a greedy cell, found {request.temperature}."
    if not request.exact_length:
        yield "Expected a request for an exact length, found one that may end early."
    if isinstance(cell, ServingCell) and request.endpoint != cell.endpoint:
        yield f"Expected endpoint {cell.endpoint}, found {request.endpoint}."
    planned = exact_prompt_tokens(cell, request.index)
    outcome = request.outcome
    if planned and isinstance(outcome, Completed) and outcome.prompt_tokens != planned:
        yield f"Expected a prompt of {planned} tokens, found {outcome.prompt_tokens}."


def completeness_findings(records: RunRecords, journal: Journal) -> Iterator[Finding]:
    """Yield where a finished cell lacks planned requests, or its wall time contradicts them."""
    groups: dict[tuple[str, str], list[RequestRecord]] = defaultdict(list)
    for request in records.requests:
        if request.variant != "warmup":
            groups[request.boot_id, request.cell_id].append(request)
    for number, event in enumerate(records.cells, start=1):
        cell = journal.cells.get(event.cell_id)
        if not isinstance(event, CellFinished) or cell is None or isinstance(cell, KernelCell):
            continue
        where = f"{layout.CELLS} line {number}"
        requests = groups[event.boot_id, event.cell_id]
        missing = set(range(prompt_count(cell))) - {request.index for request in requests}
        if missing:
            why = f"Expected {prompt_count(cell)} prompts of a finished cell, found prompt "
            yield _bad(where, f"{why}{min(missing)} without a record.")
        elif requests:
            yield from (_bad(where, why) for why in _wall_problems(event, requests))


def _wall_problems(event: CellFinished, requests: list[RequestRecord]) -> Iterator[str]:
    start = min(request.sent_at_ns for request in requests)
    span = max(request.sent_at_ns + request.ended_at_ns for request in requests) - start
    longest = math.ceil(span * (1 + _WALL_SLACK_SHARE)) + _WALL_SLACK_NS
    if not span - _CLOCK_SLACK_NS <= event.wall_ns <= longest:
        yield f"Expected a wall time near the {span} ns of its requests, found {event.wall_ns} ns."


def _bad(where: str, why: str) -> Finding:
    return _finding("records-inconsistent", where, why)


def _finding(code: FindingCode, where: str, why: str) -> Finding:
    return Finding(code, where, why, _HINT)
