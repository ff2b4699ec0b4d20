"""Drafts in a real engine: states after accepted and refused tokens, against the references."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from k3decode.dims import tiny
from k3decode.model.reference_decoder import ReferenceDecoder, empty_state
from k3decode.model.weights import model_weights

from .server import Server, engine

pytestmark = pytest.mark.engine

NEW_TOKENS = 24
# Few allowed tokens make the text repeat itself, so that looked-up drafts are partly right.
CASES = ((1, 5), (2, 20), (2, 60), (3, 40), (3, 130), (4, 30))
LOGPROB_TOLERANCE = 1e-4


def cases() -> list[tuple[list[int], list[int]]]:
    """Allowed tokens and a prompt of them, by the numbers of `CASES`."""
    draw = random.Random(3)  # noqa: S311  # test inputs
    found = []
    for kinds, length in CASES:
        allowed = [draw.randrange(3, 1024) for _ in range(kinds)]
        found.append((allowed, [draw.choice(allowed) for _ in range(length)]))
    return found


@pytest.fixture(scope="module")
def server(
    engine_python: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    drafts = (
        '{"method": "ngram", "num_speculative_tokens": 3, '
        '"prompt_lookup_max": 3, "prompt_lookup_min": 1}'
    )
    flags = ["--no-enable-prefix-caching", "--speculative-config", drafts]
    log = tmp_path_factory.mktemp("logs") / "speculation.log"
    with engine(engine_python, checkpoint, "candidate", log, flags) as running:
        yield running


def test_drafts_change_no_answer(server: Server, checkpoint: Path) -> None:
    weights = model_weights(load_file(checkpoint / "model.safetensors"), tiny())
    decoder = ReferenceDecoder(weights, tiny(), "chunked", "unabsorbed")
    with ThreadPoolExecutor(len(CASES)) as pool:
        answers = list(
            pool.map(
                lambda case: server.complete(case[1], NEW_TOKENS, allowed_token_ids=case[0]),
                cases(),
            )
        )
    for (allowed, prompt), answer in zip(cases(), answers, strict=True):
        tokens = list(answer.token_ids)
        scores, _ = decoder.extend(prompt + tokens[:-1], empty_state(tiny()))
        scores = scores[len(prompt) - 1 :]
        best = torch.tensor(allowed)[scores[:, allowed].argmax(dim=-1)]
        assert best.tolist() == tokens
        chosen = scores.log_softmax(dim=-1)[torch.arange(len(tokens)), tokens]
        assert float((chosen - torch.tensor(answer.logprobs)).abs().max()) < LOGPROB_TOLERANCE
    counts = {(row["kind"], row["path"]): row["count"] for row in server.coverage()["counts"]}
    assert counts["verify", "candidate"] > 0
    accepted = server.metric("vllm:spec_decode_num_accepted_tokens_total")
    drafted = server.metric("vllm:spec_decode_num_draft_tokens_total")
    assert 0 < accepted < drafted
