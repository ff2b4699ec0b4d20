"""How the requests of a serving cell arrive. Part of a plan, so nothing can change afterwards."""

from typing import Annotated, Literal

from pydantic import Field

from k3bundle.record import Count, Nanoseconds, Record, Sha256

__all__ = ["ClosedLoop", "PoissonArrivals", "TraceEntry", "TraceReplay", "Traffic"]


class ClosedLoop(Record):
    """A fixed number of requests in flight: each answer is followed by the next request."""

    kind: Literal["closed_loop"] = "closed_loop"
    """Tag."""


class PoissonArrivals(Record):
    """Requests at exponentially distributed distances, drawn from the run's nonce."""

    kind: Literal["poisson"] = "poisson"
    """Tag."""
    requests_per_s: float = Field(gt=0, le=1e6)
    """Mean requests per second."""


class TraceEntry(Record):
    """One request of a trace."""

    at_ns: Nanoseconds
    """When it is due, since the start of the measured part."""
    prompt_tokens: int = Field(ge=1)
    """Length of its prompt."""
    output_tokens: int = Field(ge=1)
    """Tokens that are asked for."""
    prefix_ids: tuple[Count, ...] = ()
    """Names of the leading blocks of its prompt; prompts with equal leading names share these
    blocks. Empty: it shares nothing."""


class TraceReplay(Record):
    """Requests at the times, and with the lengths, of a recorded trace."""

    kind: Literal["trace"] = "trace"
    """Tag."""
    file_sha256: Sha256
    """Digest of the file that the entries were read from."""
    prefix_block_tokens: Count = 512
    """Tokens of one named block."""
    entries: tuple[TraceEntry, ...] = Field(min_length=1, max_length=100_000)
    """The requests, in order of time."""


Traffic = Annotated[ClosedLoop | PoissonArrivals | TraceReplay, Field(discriminator="kind")]
"""How requests arrive; `kind` says which."""
