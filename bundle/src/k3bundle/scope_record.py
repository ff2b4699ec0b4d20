"""What a subject declares that it serves, fixed in the plan before anything is measured."""

from typing import Annotated

from pydantic import Field, StringConstraints

from k3bundle.record import CellId, Count, Record

__all__ = ["DeclaredDeployment", "DeclaredScope"]

Capability = Annotated[str, StringConstraints(pattern=r"^\d{1,2}\.\d$")]
"""Compute capability of an accelerator, for example `10.3`."""


class DeclaredDeployment(Record):
    """One way to start the engine that the subject declares, whether this plan boots it or not."""

    name: CellId
    """Its name."""
    gpu_count: Count
    """Accelerators that one boot uses; 0: none."""
    tensor_parallel: int = Field(default=1, ge=1, le=65536)
    """Ranks that share each layer (TP)."""
    context_parallel: int = Field(default=1, ge=1, le=65536)
    """Ranks that share the decode context (DCP)."""
    draft_tokens: Count = 0
    """Speculative tokens per request and step; 0: no speculation."""


class DeclaredScope(Record):
    """The limits of a subject's claim. An empty tuple or None is no limit."""

    compute_capabilities: tuple[Capability, ...] = ()
    """Accelerators that the candidate runs on."""
    maximum_concurrency: Count | None = None
    """Most requests in flight that anything is claimed for."""
    maximum_prompt_tokens: Count | None = None
    """Longest prompt that anything is claimed for."""
    prepared_always: tuple[Count, ...] = ()
    """Token counts of a step that the path prepares in every deployment."""
    prepared_limit: Count | None = None
    """Largest token count of a step that is ever prepared; larger steps are left to stock. None:
    the path does not prepare."""
    deployments: tuple[DeclaredDeployment, ...] = ()
    """Every deployment of the subject, in its order."""
