"""One workload for both clients: the same prompts as text, the same body, the same concurrency."""

import json
from dataclasses import dataclass
from pathlib import Path

from k3bundle.canonical import sha256_hex
from k3bundle.plan import ServingCell
from k3runner.load.planned import CellRequests, plan_requests
from k3runner.load.prompt_file import parse_prompts
from k3runner.prompts import Vocabulary, chat_message

__all__ = ["EXTRA_BODY", "MODEL", "Workload"]

MODEL = "k3-tiny"
"""Served model name."""
EXTRA_BODY = {
    "temperature": 0.0,
    "return_token_ids": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}
"""What our client asks for and `vllm bench serve` does not by itself: both get the same bytes."""
_NONCE = "5" * 64


@dataclass(frozen=True)
class Workload:
    """What is sent."""

    requests: int
    """Prompts, each sent once."""
    concurrency: int
    """Requests in flight."""
    prompt_words: int
    """Made-up words of each prompt."""
    output_tokens: int
    """Exact length of each answer."""
    seed: str = "workload"
    """Another seed gives other prompts."""

    def write_prompts(self, path: Path) -> None:
        """Writes the prompts, one JSON object per line."""
        path.write_text("".join(json.dumps(line) + "\n" for line in self._lines()), "utf-8")

    def planned(self) -> CellRequests:
        """The requests as our client sends them: in an order of its own, without warm-up."""
        content = "".join(json.dumps(line) + "\n" for line in self._lines()).encode()
        digest = sha256_hex(content)
        cell = ServingCell(
            cell_id="agreement",
            endpoint="completions",
            concurrency=self.concurrency,
            prompt_tokens=1,
            prompt_file_sha256=digest,
            output_tokens=self.output_tokens,
            warmup_requests=0,
            request_count=self.requests,
        )
        files = {digest: parse_prompts(content, "prompts.jsonl")}
        return plan_requests(cell, _NONCE, Vocabulary(0, 1, frozenset()), files)

    def _lines(self) -> list[dict[str, str]]:
        return [
            {"prompt": chat_message(_NONCE, self.seed, index, self.prompt_words)}
            for index in range(self.requests)
        ]
