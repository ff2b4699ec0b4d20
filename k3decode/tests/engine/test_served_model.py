"""The plugin in a real engine: both backends against each other and against the references."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from k3decode.decode.plan import FALLBACKS
from k3decode.dims import tiny
from k3decode.model.reference_decoder import ReferenceDecoder, empty_state
from k3decode.model.weights import model_weights
from k3decode.tiny_checkpoint import write_tiny_checkpoint

from .server import Completion, Server

pytestmark = pytest.mark.engine

BACKENDS = ("stock", "candidate")
NEW_TOKENS = 16
# One token, around a chunk of the chunked form, around the engine's cache block (128), around the
# stock engine's chunk (256), around the candidate's scope (512), and several of all of them.
LENGTHS = (1, 2, 3, 31, 33, 127, 128, 129, 255, 257, 511, 513, 900)
# fp32 forms that add in different orders, eight layers deep.
LOGPROB_TOLERANCE = 1e-4
Answers = dict[str, list[Completion]]


def prompts() -> list[list[int]]:
    draw = random.Random(1)  # noqa: S311  # test inputs
    return [[draw.randrange(3, 1024) for _ in range(length)] for length in LENGTHS]


@pytest.fixture(scope="module")
def alone(servers: dict[str, Server]) -> Answers:
    """Each prompt on its own, prompts in order, on engines that have served nothing before."""
    for server in servers.values():
        assert server.coverage()["counts"] == [], "start-up runs must not be counted"
    return {
        backend: [server.complete(prompt, NEW_TOKENS) for prompt in prompts()]
        for backend, server in servers.items()
    }


def furthest(left: list[Completion], right: list[Completion]) -> float:
    pairs = [
        (a, b)
        for one, other in zip(left, right, strict=True)
        for a, b in zip(one.logprobs, other.logprobs, strict=True)
    ]
    return float(max(abs(a - b) for a, b in pairs))


def test_checkpoint_is_the_same_in_both_environments(checkpoint: Path, tmp_path: Path) -> None:
    write_tiny_checkpoint(tmp_path, seed=0)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (checkpoint / path.name).read_bytes(), path.name


def test_backends_choose_the_same_tokens(alone: Answers) -> None:
    stock, candidate = (alone[backend] for backend in BACKENDS)
    assert [a.token_ids for a in candidate] == [a.token_ids for a in stock]
    assert furthest(candidate, stock) < LOGPROB_TOLERANCE


@pytest.mark.parametrize("backend", BACKENDS)
def test_served_answers_equal_the_reference_decoder(
    backend: str, alone: Answers, checkpoint: Path
) -> None:
    weights = model_weights(load_file(checkpoint / "model.safetensors"), tiny())
    # The decoder reads all at once, in the forms that the backend under test does not use.
    other = "recurrent" if backend == "stock" else "chunked"
    form = "absorbed" if backend == "stock" else "unabsorbed"
    decoder = ReferenceDecoder(weights, tiny(), other, form)  # type: ignore[arg-type]
    for prompt, answer in zip(prompts(), alone[backend], strict=True):
        tokens = list(answer.token_ids)
        scores, _ = decoder.extend(prompt + tokens[:-1], empty_state(tiny()))
        logprobs = scores[len(prompt) - 1 :].log_softmax(dim=-1)
        assert logprobs.argmax(dim=-1).tolist() == tokens, f"prompt of {len(prompt)} tokens"
        chosen = logprobs[torch.arange(len(tokens)), tokens]
        assert float((chosen - torch.tensor(answer.logprobs)).abs().max()) < LOGPROB_TOLERANCE


@pytest.mark.parametrize("backend", BACKENDS)
def test_company_and_cached_prompts_do_not_change_an_answer(
    backend: str, alone: Answers, servers: dict[str, Server]
) -> None:
    with ThreadPoolExecutor(8) as pool:
        together = list(
            pool.map(lambda prompt: servers[backend].complete(prompt, NEW_TOKENS), prompts())
        )
    assert [a.token_ids for a in together] == [a.token_ids for a in alone[backend]]
    assert furthest(together, alone[backend]) < LOGPROB_TOLERANCE
    assert alone[backend][-1].cached_tokens == 0
    assert together[-1].cached_tokens >= 512


@pytest.mark.parametrize("backend", BACKENDS)
def test_seeded_sampling_repeats(backend: str, alone: Answers, servers: dict[str, Server]) -> None:
    assert alone[backend]
    prompt = prompts()[3]
    first, again, other = (
        servers[backend].complete(prompt, NEW_TOKENS, temperature=1, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first.token_ids == again.token_ids
    assert first.token_ids != other.token_ids


@pytest.mark.parametrize("backend", BACKENDS)
def test_chat_and_structured_output(backend: str, servers: dict[str, Server]) -> None:
    schema = {
        "type": "object",
        "properties": {"count": {"type": "integer"}, "open": {"type": "boolean"}},
        "required": ["count", "open"],
        "additionalProperties": False,
    }
    body = {
        "model": "k3-tiny",
        "messages": [{"role": "user", "content": "Count the boats."}],
        "temperature": 0,
        "max_tokens": 200,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "boats", "schema": schema},
        },
    }
    answer = servers[backend].post("/v1/chat/completions", body)
    content = json.loads(answer["choices"][0]["message"]["content"])
    assert set(content) == {"count", "open"}
    assert type(content["count"]) is int
    assert type(content["open"]) is bool
    assert answer["usage"]["completion_tokens"] > 0


def totals(server: Server) -> dict[tuple[str, str, str | None], int]:
    report = server.coverage()
    assert report["schema"] == "k3decode.coverage/1"
    assert report["source"] == "host"
    assert report["configured_backend"] == server.backend
    return {(row["kind"], row["path"], row["reason"]): row["count"] for row in report["counts"]}


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_request_counts_its_steps_once(backend: str, servers: dict[str, Server]) -> None:
    before = totals(servers[backend])
    servers[backend].complete([9, 8, 7, 6, 5], 10)
    after = totals(servers[backend])
    gained = {key: after[key] - before.get(key, 0) for key in after}
    assert {key: count for key, count in gained.items() if count} == {
        ("prefill", backend, None): 1,
        ("decode", backend, None): 9,
    }


def test_stock_counts_stock_only(alone: Answers, servers: dict[str, Server]) -> None:
    assert alone["stock"]
    assert {key[1:] for key in totals(servers["stock"])} == {("stock", None)}


def test_candidate_names_why_it_stepped_aside(alone: Answers, servers: dict[str, Server]) -> None:
    assert alone["candidate"]
    counts = totals(servers["candidate"])
    too_long = FALLBACKS[2][1]
    turned_down = {(kind, reason) for kind, path, reason in counts if path == "stock"}
    assert ("prefill", too_long) in turned_down
    assert turned_down <= {("prefill", too_long), ("mixed", too_long)}
    assert counts["decode", "candidate", None] > 0
    assert not any(kind == "decode" for kind, _ in turned_down)
