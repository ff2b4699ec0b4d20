"""The requests of a cell: what is sent, when, in which order, with which body. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from k3bundle.plan import FeatureCell, GreedyCell, ServingCell
from k3runner.load.prompt_file import FilePrompt
from k3runner.load.serving_prompts import due_times_ns, file_prompts, lengths_of, prompt_of
from k3runner.prompts import Vocabulary, chat_message, sampling_seed, token_prompt

__all__ = ["CellRequests", "PlannedRequest", "Variant", "plan_requests", "request_body"]

Variant = Literal["warmup", "measured", "stream", "block", "seeded", "seeded_repeat", "other_seed"]
_FEATURE_PROMPT_TOKENS = 48
_WARMUP_INDEX = 1_000_000
"""Warm-up prompts are numbered from here, so that they are never a measured prompt."""


@dataclass(frozen=True)
class PlannedRequest:
    """One request, before it is sent."""

    cell_id: str
    """Its cell."""
    index: int
    """Prompt number."""
    variant: Variant
    """Why it is sent."""
    prompt: tuple[int, ...] | str | FilePrompt
    """Token ids (completions), the text of one user message (chat), or a prompt of a file."""
    requested_tokens: int
    """`max_tokens`."""
    exact_length: bool
    """Ignore end-of-sequence."""
    due_ns: int | None = None
    """When it is due, since the start of the measured part; None: when a stream is free."""
    temperature: float = 0.0
    """Sampling temperature."""
    seed: int | None = None
    """Sampling seed."""
    wants_logprobs: bool = False
    """Ask for the best two tokens of each position."""
    json_schema: dict[str, Any] | None = None
    """Schema that the output is constrained to."""

    @property
    def endpoint(self) -> Literal["completions", "chat"]:
        """Which endpoint."""
        chat = (
            self.prompt.messages is not None
            if isinstance(self.prompt, FilePrompt)
            else isinstance(self.prompt, str)
        )
        return "chat" if chat else "completions"

    @property
    def streamed(self) -> bool:
        """False only for the variant that asks for the whole answer at once."""
        return self.variant != "block"

    @property
    def token_count(self) -> int | None:
        """Length of the prompt where it is sent as token ids; None elsewhere."""
        ids = self.prompt.token_ids if isinstance(self.prompt, FilePrompt) else self.prompt
        return len(ids) if isinstance(ids, tuple) else None

    @property
    def content(self) -> list[Any] | str:
        """The prompt as it goes into the body, and into its digest."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [{"role": "user", "content": prompt}]
        if isinstance(prompt, tuple):
            return list(prompt)
        if prompt.messages is not None:
            return [{"role": role, "content": content} for role, content in prompt.messages]
        return list(prompt.token_ids) if prompt.token_ids is not None else prompt.text or ""


@dataclass(frozen=True)
class CellRequests:
    """All requests of a cell in one boot."""

    warmup: tuple[tuple[PlannedRequest, ...], ...]
    """Rounds that are sent first, at the same concurrency, and not measured. No more are sent once
    they take equally long."""
    measured: tuple[PlannedRequest, ...]
    """The cell itself."""
    concurrency: int
    """Streams in flight."""


def plan_requests(
    cell: ServingCell | GreedyCell | FeatureCell,
    nonce: str,
    vocabulary: Vocabulary,
    prompt_files: Mapping[str, tuple[FilePrompt, ...]] | None = None,
) -> CellRequests:
    """The requests of a cell; equal in every boot of a run.

    Args:
        cell: The cell.
        nonce: Nonce of the run.
        vocabulary: Token ids for prompts.
        prompt_files: Digest of a file -> its prompts; needed for cells that name one.

    Raises:
        UsageError: The cell names a file that is not there or holds too few prompts.
    """
    if isinstance(cell, ServingCell):
        return _serving(cell, nonce, vocabulary, prompt_files or {})
    if isinstance(cell, GreedyCell):
        measured = tuple(
            PlannedRequest(
                cell_id=cell.cell_id,
                index=index,
                variant="measured",
                prompt=token_prompt(nonce, cell.cell_id, index, length, vocabulary),
                requested_tokens=cell.output_tokens,
                exact_length=True,
                wants_logprobs=True,
            )
            for index, length in enumerate(cell.prompt_tokens)
        )
        return CellRequests(warmup=(), measured=measured, concurrency=cell.concurrency)
    measured = tuple(
        request
        for index in range(cell.request_count)
        for request in _feature(cell, index, nonce, vocabulary)
    )
    return CellRequests(warmup=(), measured=measured, concurrency=1)


def request_body(request: PlannedRequest, model: str) -> dict[str, Any]:
    """The JSON body of a request.

    Args:
        request: What to send.
        model: Served model name.
    """
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.requested_tokens,
        "temperature": request.temperature,
        "stream": request.streamed,
        "return_token_ids": True,
    }
    if request.endpoint == "chat":
        body["messages"] = request.content
    else:
        body["prompt"] = request.content
    if request.streamed:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if request.exact_length:
        body["ignore_eos"] = True
    if request.seed is not None:
        body["seed"] = request.seed
    if request.wants_logprobs:
        # Ids instead of text: two tokens may have the same text.
        body |= {"logprobs": 2, "return_tokens_as_token_ids": True}
    if request.json_schema is not None:
        body |= _schema_fields(request)
    return body


def _schema_fields(request: PlannedRequest) -> dict[str, Any]:
    if request.endpoint == "chat":
        schema = {"name": "answer", "schema": request.json_schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {"structured_outputs": {"json": request.json_schema}}


def _serving(
    cell: ServingCell,
    nonce: str,
    vocabulary: Vocabulary,
    prompt_files: Mapping[str, tuple[FilePrompt, ...]],
) -> CellRequests:
    prompts = file_prompts(cell, nonce, prompt_files)

    def one(index: int, variant: Variant, due_ns: int | None = None) -> PlannedRequest:
        prompt_tokens, output_tokens = lengths_of(cell, index)
        # Warm-up takes prompts of a file from its end: none of them is measured later.
        at = _WARMUP_INDEX - 1 - index if variant == "warmup" else index
        return PlannedRequest(
            cell_id=cell.cell_id,
            index=index,
            variant=variant,
            prompt=prompts[at]
            if prompts
            else prompt_of(cell, index, prompt_tokens, nonce, vocabulary),
            requested_tokens=output_tokens,
            exact_length=True,
            due_ns=due_ns,
        )

    due = due_times_ns(cell, nonce)
    return CellRequests(
        warmup=tuple(
            tuple(
                one(_WARMUP_INDEX + number * cell.warmup_requests + at, "warmup")
                for at in range(cell.warmup_requests)
            )
            for number in range(cell.warmup_rounds if cell.warmup_requests else 0)
        ),
        measured=tuple(
            one(index, "measured", due_ns)
            for index, due_ns in zip(range(cell.request_count), due, strict=True)
        ),
        concurrency=cell.concurrency,
    )


def _feature(
    cell: FeatureCell, index: int, nonce: str, vocabulary: Vocabulary
) -> tuple[PlannedRequest, ...]:
    ids = token_prompt(nonce, cell.cell_id, index, _FEATURE_PROMPT_TOKENS, vocabulary)
    words = chat_message(nonce, cell.cell_id, index, words=8)

    def one(variant: Variant, prompt: tuple[int, ...] | str, **more: Any) -> PlannedRequest:
        return PlannedRequest(
            cell_id=cell.cell_id,
            index=index,
            variant=variant,
            prompt=prompt,
            requested_tokens=cell.output_tokens,
            exact_length=cell.feature != "structured_output",
            **more,
        )

    if cell.feature == "structured_output":
        # Both ways of asking: response_format on chat, structured_outputs on completions.
        return (one("stream", ids if index % 2 else words, json_schema=cell.json_schema),)
    if cell.feature == "sampling":
        seed = sampling_seed(nonce, cell.cell_id, index, other=False)
        other = sampling_seed(nonce, cell.cell_id, index, other=True)
        return (
            one("seeded", ids, temperature=1.0, seed=seed),
            one("seeded_repeat", ids, temperature=1.0, seed=seed),
            one("other_seed", ids, temperature=1.0, seed=other),
        )
    prompt = words if cell.feature == "chat" else ids
    return (one("stream", prompt), one("block", prompt))
