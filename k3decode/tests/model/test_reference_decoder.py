import itertools

import pytest
import torch

from k3decode.difference import relative_error
from k3decode.dims import tiny
from k3decode.model.reference_decoder import ReferenceDecoder, empty_state
from k3decode.model.weights import ModelWeights, model_weights
from k3decode.tiny_checkpoint import tiny_tensors

DIMS = tiny()
PROMPT = [17, 900, 3, 3, 512, 44, 1023, 260] * 5


@pytest.fixture(scope="module")
def weights() -> ModelWeights:
    return model_weights(tiny_tensors(DIMS, 0), DIMS)


@pytest.mark.parametrize(
    ("kda", "mla"), list(itertools.product(["recurrent", "chunked"], ["unabsorbed", "absorbed"]))
)
def test_forms_give_the_same_logits_and_text(weights: ModelWeights, kda: str, mla: str) -> None:
    first = ReferenceDecoder(weights, DIMS)
    other = ReferenceDecoder(weights, DIMS, kda, mla)  # type: ignore[arg-type]
    expected, _ = first.extend(PROMPT, empty_state(DIMS))
    got, _ = other.extend(PROMPT, empty_state(DIMS))
    assert relative_error(got, expected) < 5e-5
    assert other.greedy(PROMPT, 8) == first.greedy(PROMPT, 8)


def test_reading_in_pieces_equals_reading_at_once(weights: ModelWeights) -> None:
    decoder = ReferenceDecoder(weights, DIMS)
    whole, _ = decoder.extend(PROMPT, empty_state(DIMS))
    head, state = decoder.extend(PROMPT[:13], empty_state(DIMS))
    tail, _ = decoder.extend(PROMPT[13:], state)
    assert relative_error(torch.cat([head, tail]), whole) < 5e-5


def test_early_tokens_reach_late_logits(weights: ModelWeights) -> None:
    decoder = ReferenceDecoder(weights, DIMS)
    whole, _ = decoder.extend(PROMPT, empty_state(DIMS))
    other, _ = decoder.extend([18, *PROMPT[1:]], empty_state(DIMS))
    assert relative_error(other[-1], whole[-1]) > 1e-3


def test_greedy_text_is_varied_and_decided(weights: ModelWeights) -> None:
    decoder = ReferenceDecoder(weights, DIMS)
    text = decoder.greedy([5], 40)
    logits, _ = decoder.extend([5, *text], empty_state(DIMS))
    best = logits[:-1].topk(2, dim=-1).values
    assert len(set(text)) > 25
    # Forms differ by about 1e-5; nearly every step is decided by far more.
    assert float((best[:, 0] - best[:, 1]).quantile(0.1)) > 0.01


def test_a_checkpoint_that_does_not_fit_is_refused_with_all_faults() -> None:
    tensors = tiny_tensors(DIMS, 0)
    del tensors["model.norm.weight"]
    tensors["extra"] = torch.zeros(1)
    tensors["lm_head.weight"] = torch.zeros(2)
    with pytest.raises(ValueError, match="does not fit") as caught:
        model_weights(tensors, DIMS)
    for name in ("model.norm.weight", "extra", "lm_head.weight"):
        assert name in str(caught.value)
