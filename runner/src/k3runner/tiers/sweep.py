"""Serving cells that a tier names by their axes. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

from k3bundle.plan import Deployment, ServingCell
from k3bundle.step_tokens import PreparedTokens

__all__ = ["Sweep"]

_WARMUP_ROUNDS = 8
"""Most rounds of warm-up; four are the fewest that can show a steady engine."""


@dataclass(frozen=True)
class Sweep:
    """One serving cell for each prompt length and number of requests in flight."""

    label: str
    """What the cells' names begin with."""
    endpoint: Literal["completions", "chat"]
    """Which OpenAI endpoint is streamed."""
    prompt_tokens: tuple[int, ...]
    """Lengths of prompts."""
    output_tokens: int
    """Tokens asked for."""
    concurrency: tuple[int, ...]
    """Requests in flight."""
    beyond_prepared: bool
    """Whether the fewest requests that the path is not prepared for get a cell too: what happens
    there is part of what a user meets."""
    one_deployment: bool
    """Whether only the deployment runs it that runs the tier's other cells."""
    draft_tokens: tuple[int, ...]
    """Deployments with these numbers of draft tokens run it; empty: all."""
    requests_per_stream: int
    """Measured requests for each request in flight."""
    minimum_requests: int
    """Measured requests of the cells with few streams."""
    prompt_file_sha256: str | None = None
    """Digest of the file that prompts come from; None: made from the nonce."""

    def applies_to(self, deployment: Deployment) -> bool:
        """Whether a deployment runs the sweep."""
        return not self.draft_tokens or deployment.draft_tokens in self.draft_tokens

    def cells(
        self, deployment: Deployment, prepared: PreparedTokens | None
    ) -> Iterator[ServingCell]:
        """Yield the cells for a deployment, by prompt length, then by requests in flight.

        Args:
            deployment: Where they run; its name is part of theirs.
            prepared: Token counts that the path is prepared for; None when it serves every count.
        """
        streams = set(self.concurrency)
        if self.beyond_prepared and prepared is not None:
            streams.add(prepared.first_beyond())
        for prompt, concurrency in product(self.prompt_tokens, sorted(streams)):
            load = f"isl{prompt}-osl{self.output_tokens}-c{concurrency}"
            yield ServingCell(
                cell_id=f"{deployment.name}-{self.label}-{load}",
                deployment=deployment.name,
                endpoint=self.endpoint,
                concurrency=concurrency,
                prompt_tokens=prompt,
                prompt_file_sha256=self.prompt_file_sha256,
                output_tokens=self.output_tokens,
                warmup_requests=concurrency,
                warmup_rounds=_WARMUP_ROUNDS,
                request_count=max(self.minimum_requests, self.requests_per_stream * concurrency),
            )
