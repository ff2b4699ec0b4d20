"""What an engine that replays graphs says about its steps: dispatch counts and kernel names.

Replayed graphs run no Python, so no counter in Python counts steps. Two records stand in: how
often a graph of which size was replayed, and which kernels the graph of a size holds.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from k3bundle.record import CellId, Count, Record
from k3bundle.run import BootId

__all__ = ["GraphEvent", "GraphMode", "GraphRow", "GraphTable", "KernelProfile"]

GraphMode = Literal["FULL", "PIECEWISE", "NONE"]
"""One graph for the whole step, graphs between attention layers, or no graph at all."""

KernelName = Annotated[str, StringConstraints(min_length=1, max_length=400)]
"""Name of a kernel as the profiler gives it, cut at 400 characters."""


class GraphRow(Record):
    """Steps of one size that were dispatched in one way, since the engine started."""

    unpadded_tokens: Count
    """Tokens that the step held."""
    padded_tokens: Count
    """Tokens of the graph that ran; the same as unpadded without a graph."""
    mode: GraphMode
    """How the step ran."""
    count: Count
    """Number of steps."""


class GraphTable(Record):
    """The engine's table of dispatched graphs at one moment; a cell's is the difference of two."""

    event: Literal["table"] = "table"
    """Tag."""
    boot_id: BootId
    """Boot it was read from."""
    cell_id: CellId
    """Cell it brackets."""
    moment: Literal["before", "after"]
    """Before the first or after the last request of the cell."""
    capture_sizes: tuple[Count, ...]
    """Token counts that graphs were captured for, ascending, as the engine says."""
    rows: tuple[GraphRow, ...]
    """Cumulative counts, one row for each size and mode."""


class KernelProfile(Record):
    """Kernels of the decode steps of one size, from a short profile."""

    event: Literal["profile"] = "profile"
    """Tag."""
    boot_id: BootId
    """Boot that was profiled."""
    unpadded_tokens: Count
    """Tokens that each of these steps held."""
    steps: int = Field(ge=1)
    """Steps of this size in the profile."""
    graph_steps: Count
    """Of those, steps that launched a graph."""
    kernels: tuple[KernelName, ...]
    """Distinct names of kernels that every one of these steps ran from graphs, sorted."""


GraphEvent = Annotated[GraphTable | KernelProfile, Field(discriminator="event")]
"""One line of `graphs.jsonl`."""
