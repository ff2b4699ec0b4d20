"""What a plan asks of each boot and of each request. Pure; runner and verifier read it alike."""

from k3bundle.plan import (
    BootSlot,
    FeatureCell,
    GreedyCell,
    KernelCell,
    Plan,
    ServingCell,
    SkippedCell,
)
from k3bundle.traffic import TraceReplay

__all__ = [
    "DueCell",
    "RunnableCell",
    "cells_in",
    "due_in",
    "exact_prompt_tokens",
    "prompt_count",
    "requested_tokens",
    "runs_in",
]

RunnableCell = ServingCell | GreedyCell | FeatureCell
"""A planned cell that sends requests to an engine."""

DueCell = RunnableCell | KernelCell
"""A planned cell that is not skipped."""


def runs_in(cell: DueCell, slot: BootSlot) -> bool:
    """Whether a boot runs a cell: it has the cell's deployment, and a null pair only serves."""
    if cell.deployment != slot.deployment:
        return False
    return slot.role == "compare" or isinstance(cell, ServingCell)


def due_in(plan: Plan, slot: BootSlot) -> tuple[DueCell, ...]:
    """The cells that a boot runs, in plan order."""
    return tuple(
        cell for cell in plan.cells if not isinstance(cell, SkippedCell) and runs_in(cell, slot)
    )


def cells_in(plan: Plan, slot: BootSlot) -> tuple[RunnableCell, ...]:
    """The cells of a boot that send requests, in plan order."""
    return tuple(cell for cell in due_in(plan, slot) if not isinstance(cell, KernelCell))


def prompt_count(cell: RunnableCell) -> int:
    """Distinct measured prompts of a cell."""
    return len(cell.prompt_tokens) if isinstance(cell, GreedyCell) else cell.request_count


def requested_tokens(cell: RunnableCell, index: int) -> int:
    """Output tokens that are asked for with a prompt.

    Args:
        cell: The cell.
        index: Number of the prompt; one beyond the trace gets the cell's own number.
    """
    if isinstance(cell, ServingCell) and isinstance(cell.traffic, TraceReplay):
        entries = cell.traffic.entries
        return entries[index].output_tokens if index < len(entries) else cell.output_tokens
    return cell.output_tokens


def exact_prompt_tokens(cell: RunnableCell, index: int) -> int | None:
    """Length that a prompt must have by the plan, in tokens; None when the plan leaves it open."""
    if isinstance(cell, GreedyCell):
        return cell.prompt_tokens[index] if index < len(cell.prompt_tokens) else None
    if isinstance(cell, FeatureCell) or cell.endpoint == "chat" or cell.prompt_file_sha256:
        return None
    if isinstance(cell.traffic, TraceReplay):
        entries = cell.traffic.entries
        return entries[index].prompt_tokens if index < len(entries) else None
    return cell.prompt_tokens
