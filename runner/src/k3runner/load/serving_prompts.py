"""What the requests of a serving cell hold and when they are due, by its plan. Pure."""

from collections.abc import Callable, Mapping

from k3bundle.plan import ServingCell
from k3bundle.traffic import PoissonArrivals, TraceReplay
from k3runner.errors import UsageError
from k3runner.load.prompt_file import FilePrompt
from k3runner.prompts import (
    Vocabulary,
    chat_message,
    order_of,
    poisson_arrivals_ns,
    shared_tokens,
    shared_words,
    token_prompt,
)

__all__ = ["due_times_ns", "file_prompts", "lengths_of", "prompt_of"]

_TOKENS_PER_WORD = 4


def due_times_ns(cell: ServingCell, nonce: str) -> tuple[int | None, ...]:
    """When each measured request is due, since the start of the measured part.

    Returns:
        One entry per request; None in a closed loop, where a request is due when a stream is free.
    """
    if isinstance(cell.traffic, PoissonArrivals):
        rate = cell.traffic.requests_per_s
        return poisson_arrivals_ns(nonce, cell.cell_id, cell.request_count, rate)
    if isinstance(cell.traffic, TraceReplay):
        return tuple(entry.at_ns for entry in cell.traffic.entries[: cell.request_count])
    return (None,) * cell.request_count


def lengths_of(cell: ServingCell, index: int) -> tuple[int, int]:
    """Prompt tokens and requested tokens of a request; a trace says its own."""
    if isinstance(cell.traffic, TraceReplay):
        # Warm-up requests have numbers of their own and are as long as those of the trace.
        entry = cell.traffic.entries[index % len(cell.traffic.entries)]
        return entry.prompt_tokens, entry.output_tokens
    return cell.prompt_tokens, cell.output_tokens


def prompt_of(
    cell: ServingCell, index: int, length: int, nonce: str, vocabulary: Vocabulary
) -> tuple[int, ...] | str:
    """Draws a prompt: token ids of exactly that length, or words for the chat endpoint.

    Args:
        cell: The cell.
        index: Number of the prompt.
        length: Its length in tokens; a target for the chat endpoint.
        nonce: Nonce of the run.
        vocabulary: Token ids.
    """
    shared = min(cell.shared_prefix_tokens, length - 1)
    if cell.endpoint == "chat":
        own = max(1, (length - shared) // _TOKENS_PER_WORD)
        message = chat_message(nonce, cell.cell_id, index, own)
        if shared < _TOKENS_PER_WORD:
            return message
        return f"{shared_words(nonce, cell.cell_id, shared // _TOKENS_PER_WORD)} {message}"

    def draw(name: str, tokens: int) -> tuple[int, ...]:
        return shared_tokens(nonce, cell.cell_id, name, tokens, vocabulary)

    prefix = (
        _trace_prefix(cell.traffic, index, length - 1, draw)
        if isinstance(cell.traffic, TraceReplay)
        else draw("prefix", shared)
    )
    rest = length - len(prefix)
    return prefix + token_prompt(nonce, cell.cell_id, index, rest, vocabulary)


def file_prompts(
    cell: ServingCell, nonce: str, files: Mapping[str, tuple[FilePrompt, ...]]
) -> tuple[FilePrompt, ...]:
    """The prompts of the cell's file in the order of the run; empty when the cell names none.

    Raises:
        UsageError: The file is not there, has prompts for another endpoint, or too few.
    """
    digest = cell.prompt_file_sha256
    if digest is None:
        return ()
    prompts = files.get(digest)
    if prompts is None:
        raise UsageError(
            f"The prompts of {cell.cell_id} are not there: no file has the digest {digest}.",
            "Give the file that the plan was made with.",
        )
    fitting = [p for p in prompts if (p.messages is not None) == (cell.endpoint == "chat")]
    needed = cell.request_count + cell.warmup_requests * cell.warmup_rounds
    if len(fitting) < needed:
        raise UsageError(
            f"{cell.cell_id} needs {needed} prompts for {cell.endpoint}, each sent once per boot; "
            f"its file holds {len(fitting)}.",
            "Use a longer file, or plan fewer requests.",
        )
    return tuple(fitting[at] for at in order_of(nonce, cell.cell_id, len(fitting)))


def _trace_prefix(
    trace: TraceReplay, index: int, longest: int, draw: Callable[[str, int], tuple[int, ...]]
) -> tuple[int, ...]:
    """Blocks that the trace names for this prompt, in order; warm-up prompts share nothing."""
    if index >= len(trace.entries):
        return ()
    tokens: tuple[int, ...] = ()
    # Published traces name every block of a prompt; the last one is mostly cut.
    for name in trace.entries[index].prefix_ids:
        tokens += draw(f"block-{name}", trace.prefix_block_tokens)
        if len(tokens) >= longest:
            break
    return tokens[:longest]
