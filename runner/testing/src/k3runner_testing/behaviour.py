"""How the fake server behaves. One frozen value, so that it can cross a command line as JSON."""

import json
from dataclasses import dataclass, fields
from typing import Literal

__all__ = ["Behaviour", "Fault"]

Fault = Literal[
    "none",
    "http_500",
    "error_event",
    "cut",
    "no_done",
    "no_finish",
    "no_usage",
    "malformed",
    "hang",
    "short",
    "exit",
]
"""What goes wrong with a request: `cut` closes the connection after two chunks, `hang` sends two
chunks and then pings for ever, `short` sends half of the tokens, `exit` ends the whole process."""


@dataclass(frozen=True)
class Behaviour:
    """Everything that can be scripted. The default is a good server."""

    model: str = "k3-tiny"
    """Served model name."""
    backend: str = "stock"
    """Configured decode backend, as coverage reports it."""
    served_path: str | None = None
    """Path that serves decode steps; None: the configured backend."""
    ttft_s: float = 0.0
    """Delay before the first chunk."""
    itl_s: float = 0.0
    """Delay between chunks."""
    first_request_extra_s: float = 0.0
    """Extra delay of the first request only, as lazy compilation causes."""
    chunk_tokens: int = 1
    """Tokens per chunk after the first chunk of one token; 0: all tokens in one chunk."""
    fault: Fault = "none"
    """Fault of the requests that `faulty_from` and `faulty_count` select."""
    faulty_from: int = 0
    """Number of the first faulty request, in order of arrival."""
    faulty_count: int = 1_000_000
    """How many requests are faulty."""
    wrong_token_at: int | None = None
    """Position at which greedy answers differ from those of a good server."""
    unseeded: bool = False
    """Seeds are ignored: no answer at temperature above 0 repeats."""
    breaks_schema: bool = False
    """Structured answers are cut short, so that they do not parse."""
    token_ids: bool = True
    """Sends `token_ids`."""
    usage_per_chunk: bool = True
    """Honours `continuous_usage_stats`."""
    text_share: float = 1.0
    """Tokens that `/tokenize` finds in a generated text, relative to those that were generated."""
    reasoning_tokens: int = 0
    """Leading tokens of chat answers that go to the reasoning channel."""
    cached_share: float = 0.0
    """Share of prompt tokens reported as cached."""
    administrative: bool = True
    """Offers the development endpoints; False looks like another vendor's server."""
    chance_config: bool = False
    """The effective configuration holds a port and an id that differ at each start."""
    config_delay_s: float = 0.0
    """Delay before the effective configuration is told."""
    unknown_variable: str | None = None
    """Logs at start that this environment variable is not known."""
    tells_a_token: bool = False
    """Logs a token as it starts, names it in its configuration, and says it when it fails."""
    start: Literal["good", "dies", "never_healthy"] = "good"
    """How the process starts."""
    ignores_sigterm: bool = False
    """Only SIGKILL ends the process."""
    appends_to: str | None = None
    """File that it appends to as it starts, relative to its working folder."""
    children: int = 0
    """Child processes that it starts in sessions of their own, and never stops."""

    @classmethod
    def from_json(cls, text: str) -> "Behaviour":
        """Reads a behaviour.

        Raises:
            ValueError: An unknown field.
        """
        found = json.loads(text)
        unknown = set(found) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown behaviour {sorted(unknown)}")
        return cls(**found)
