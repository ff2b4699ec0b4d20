"""What the fake server says: tokens and log-probabilities that depend on the prompt only. Pure."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from k3runner_testing.behaviour import Behaviour

__all__ = ["Generated", "generate"]

_VOCABULARY = 900
_LOGPROB = -0.25
_RUNNER_UP = -1.75


@dataclass(frozen=True)
class Generated:
    """One answer."""

    token_ids: tuple[int, ...]
    """Its tokens."""
    texts: tuple[str, ...]
    """Text of each token; their concatenation is the answer."""
    finish_reason: str
    """Why it ends."""
    prompt_tokens: int
    """Tokens of the prompt."""

    def logprobs(self, start: int, stop: int) -> dict[str, Any]:
        """Completions-style log-probabilities of some positions, by token id."""
        names = [f"token_id:{token}" for token in self.token_ids[start:stop]]
        return {
            "tokens": names,
            "token_logprobs": [_LOGPROB for _ in names],
            "top_logprobs": [{name: _LOGPROB, f"{name}0": _RUNNER_UP} for name in names],
            "text_offset": list(range(start, stop)),
        }


def generate(body: dict[str, Any], behaviour: Behaviour, request_number: int) -> Generated:
    """Generates the answer to a request.

    Args:
        body: Parsed JSON of the request.
        behaviour: How the server behaves.
        request_number: Order of arrival; only an unseeded server looks at it.
    """
    prompt: list[Any] = body.get("prompt") or body["messages"]
    prompt_tokens = len(prompt) if body.get("prompt") else 4 + len(json.dumps(prompt)) // 4
    schema = _schema(body)
    if schema is not None:
        text = json.dumps(_instance(schema), separators=(",", ":"))
        if behaviour.breaks_schema:
            text = text[: len(text) // 2]
        ids = tuple(100 + ord(letter) for letter in text)
        return Generated(ids, tuple(text), "stop", prompt_tokens)
    seed = ""
    if body.get("temperature"):
        seed = str(request_number if behaviour.unseeded else body.get("seed"))
    count = int(body["max_tokens"])
    ids = tuple(_token(prompt, seed, position) for position in range(count))
    wrong = behaviour.wrong_token_at
    if wrong is not None and wrong < count:
        ids = (*ids[:wrong], (ids[wrong] + 1) % _VOCABULARY, *ids[wrong + 1 :])
    return Generated(ids, tuple(f" w{token}" for token in ids), "length", prompt_tokens)


def _token(prompt: Any, seed: str, position: int) -> int:
    text = f"{json.dumps(prompt)}/{seed}/{position}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % _VOCABULARY


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    structured = body.get("structured_outputs", {}).get("json")
    wrapped = body.get("response_format", {}).get("json_schema", {}).get("schema")
    found: dict[str, Any] | None = structured or wrapped
    return found


def _instance(schema: dict[str, Any]) -> Any:
    """The plainest value that satisfies the kinds of schema that tiers use."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: _instance(inner) for name, inner in schema["properties"].items()}
    if kind == "array":
        return [_instance(schema["items"]) for _ in range(schema.get("minItems", 0))]
    return {"boolean": True, "integer": schema.get("minimum", 0), "string": "x"}[str(kind)]
