"""A tier with prompts or a trace of one's own. Pure; the caller reads the files.

Prompts of a file take the place of made-up ones in every serving cell that they fit. A trace is one
more serving cell, in which the candidate must not be slower: nobody declared beforehand that it
would be faster there.
"""

from dataclasses import replace

from k3bundle.canonical import sha256_hex
from k3bundle.plan import ServingCell
from k3bundle.speed_role import NonInferiority
from k3bundle.traffic import TraceReplay
from k3runner.errors import UsageError
from k3runner.load.prompt_file import parse_prompts
from k3runner.load.trace_file import parse_trace
from k3runner.tiers.loading import Tier

__all__ = ["with_prompts", "with_trace"]

_MOST_IN_FLIGHT = 64
"""More than that the decode paths under test do not claim; a request that has to wait for it is
late, and how late requests were is gated."""
_WARMUP_REQUESTS = 4
_WARMUP_ROUNDS = 8


def with_prompts(tier: Tier, content: bytes, name: str) -> Tier:
    """The tier with prompts of a file.

    Args:
        tier: The tier.
        content: The whole file.
        name: Its name, for messages.

    Raises:
        UsageError: A line is no prompt, or no serving cell has a use for them.
    """
    prompts = parse_prompts(content, name)
    endpoints = {"completions" if one.messages is None else "chat" for one in prompts}
    digest = sha256_hex(content)
    cells = tuple(
        cell.model_copy(update={"prompt_file_sha256": digest})
        if isinstance(cell, ServingCell) and cell.endpoint in endpoints
        else cell
        for cell in tier.cells
    )
    sweeps = tuple(
        replace(sweep, prompt_file_sha256=digest) if sweep.endpoint in endpoints else sweep
        for sweep in tier.sweeps
    )
    if (cells, sweeps) == (tier.cells, tier.sweeps):
        raise UsageError(
            f"No serving cell of tier {tier.name} has the endpoint of the prompts in {name}.",
            "Use `messages` for chat cells and `prompt` for completions cells.",
        )
    return replace(tier, cells=cells, sweeps=sweeps)


def with_trace(tier: Tier, content: bytes, name: str) -> Tier:
    """The tier with one more cell that replays a trace.

    Args:
        tier: The tier.
        content: The whole file.
        name: Its name, for messages.

    Raises:
        UsageError: A line is no request.
    """
    entries = parse_trace(content, name)
    cell = ServingCell(
        cell_id="serving-trace",
        endpoint="completions",
        traffic=TraceReplay(file_sha256=sha256_hex(content), entries=entries),
        concurrency=_MOST_IN_FLIGHT,
        prompt_tokens=max(entry.prompt_tokens for entry in entries),
        output_tokens=max(entry.output_tokens for entry in entries),
        warmup_requests=_WARMUP_REQUESTS,
        warmup_rounds=_WARMUP_ROUNDS,
        request_count=len(entries),
        speed=NonInferiority(),
    )
    return replace(tier, cells=(*tier.cells, cell))
