"""Ranks, drafts and divided contexts change nothing but the order of sums."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from k3decode.difference import relative_error
from k3decode.dims import K3Dims, ShardError, tiny
from k3decode.model.ranked_decoder import ContextSplit, RankedDecoder
from k3decode.model.reference_decoder import ReferenceDecoder, empty_state
from k3decode.model.sharding import shard_weights
from k3decode.model.weights import ModelWeights, model_weights
from k3decode.ops.kda.reference import kda_chunked
from k3decode.tiny_checkpoint import tiny_tensors
from k3decode.tolerance import judge_close

# Sixteen heads, so that sixteen ranks have one each; two MLA layers, two residual blocks.
DIMS = replace(tiny(), num_attention_heads=16, kda_head_dim=8, num_hidden_layers=5)
TOKENS = 3
# Drafts that are kept in each step, for each request: none, some, all, in turn.
KEPT = ((1, 3), (3, 1), (2, 3), (1, 2))
LONGEST = 1 + TOKENS * len(KEPT)


def _weights(dtype: torch.dtype) -> ModelWeights:
    tensors = {name: tensor.to(dtype) for name, tensor in tiny_tensors(DIMS, 0).items()}
    return model_weights(tensors, DIMS)


@pytest.fixture(scope="module")
def weights() -> ModelWeights:
    return _weights(torch.float32)


def _texts() -> Tensor:
    """True tokens of each request, [B, longest]."""
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, DIMS.vocab_size, (len(KEPT[0]), LONGEST), generator=generator)


def _served(decoder: RankedDecoder, *, forget_what_was_kept: bool = False) -> Tensor:
    """Logits after the kept tokens of all steps and requests, [rows, vocabulary]."""
    texts = _texts()
    requests = texts.shape[0]
    state = decoder.empty_state(requests, TOKENS, LONGEST)
    done, accepted, found = [0] * requests, torch.ones(requests, dtype=torch.int64), []
    for kept in KEPT:
        # Right tokens as far as they will be kept, then drafts that are wrong.
        step = torch.stack(
            [
                torch.cat([texts[b, done[b] : done[b] + n], texts[b, :1].expand(TOKENS - n) ^ 1])
                for b, n in enumerate(kept)
            ]
        )
        logits = decoder.step(step, accepted, state)
        found += [logits[b, :n] for b, n in enumerate(kept)]
        done = [n + more for n, more in zip(done, kept, strict=True)]
        accepted = torch.tensor(kept)
        if forget_what_was_kept:
            accepted = accepted.clamp(max=TOKENS - 1)
    return torch.cat(found)


def _unbroken(weights: ModelWeights) -> Tensor:
    """The same rows from the decoder that reads each text in one go."""
    decoder = ReferenceDecoder(weights, DIMS)
    whole = [decoder.extend(text.tolist(), empty_state(DIMS))[0] for text in _texts()]
    done, rows = [0] * len(whole), []
    for kept in KEPT:
        for b, n in enumerate(kept):
            rows.append(whole[b][done[b] : done[b] + n])
            done[b] += n
    return torch.cat(rows)


@pytest.fixture(scope="module")
def exact() -> Tensor:
    return _served(RankedDecoder(_weights(torch.float64), DIMS, 1))


@pytest.fixture(scope="module")
def alone(weights: ModelWeights) -> Tensor:
    return _served(RankedDecoder(weights, DIMS, 1))


def test_steps_with_drafts_equal_an_unbroken_text(weights: ModelWeights, alone: Tensor) -> None:
    assert relative_error(alone, _unbroken(weights)) < 5e-5


def test_the_number_of_kept_tokens_matters(weights: ModelWeights, alone: Tensor) -> None:
    wrong = _served(RankedDecoder(weights, DIMS, 1), forget_what_was_kept=True)
    assert relative_error(wrong, alone) > 1e-2


# Whole caches; positions in turn; stretches of positions, of which late ranks get none at first.
@pytest.mark.parametrize(("ranks", "interleave"), [(8, None), (16, None), (16, 1), (8, 3), (2, 4)])
def test_ranks_give_what_one_rank_gives(
    ranks: int, interleave: int | None, weights: ModelWeights, alone: Tensor, exact: Tensor
) -> None:
    context = None if interleave is None else ContextSplit(ranks, interleave)
    found = _served(RankedDecoder(weights, DIMS, ranks, context=context))
    verdict = judge_close("logits", found, reference=exact, same_dtype=alone, shared_axes=2)
    assert verdict.passed, verdict.sentence


def test_ranks_may_use_either_form_of_the_rule(weights: ModelWeights, alone: Tensor) -> None:
    found = _served(RankedDecoder(weights, DIMS, 2, kda=kda_chunked))
    assert relative_error(found, alone) < 5e-5


def test_a_forgotten_rank_is_noticed(weights: ModelWeights, alone: Tensor) -> None:
    decoder = RankedDecoder(weights, DIMS, 2)
    first, second = decoder._shards
    layer = replace(first.layers[3], attention=second.layers[3].attention)
    decoder._shards = (replace(first, layers=(*first.layers[:3], layer, *first.layers[4:])), second)
    assert relative_error(_served(decoder), alone) > 1e-2


def test_every_position_has_one_owner_and_ranks_differ_by_one_stretch() -> None:
    split = ContextSplit(4, 3)
    for length in range(40):
        parts = [split.positions(rank, length) for rank in range(4)]
        assert sorted(position for part in parts for position in part) == list(range(length))
        # Full rounds of all ranks, then the rest in turn.
        rounds, rest = divmod(length, 12)
        assert [len(part) for part in parts] == [
            3 * rounds + min(max(rest - 3 * rank, 0), 3) for rank in range(4)
        ]


def test_shards_together_are_the_model(weights: ModelWeights) -> None:
    shards = shard_weights(weights, DIMS, 4)
    assert torch.equal(torch.cat([shard.lm_head for shard in shards]), weights.lm_head)
    for layer, whole in enumerate(weights.layers):
        parts = [shard.layers[layer].attention.o_proj for shard in shards]
        assert torch.equal(torch.cat(parts, dim=1), whole.attention.o_proj)


@pytest.mark.parametrize("ranks", [0, 3, 32])
def test_ranks_that_do_not_divide_the_model_are_refused(ranks: int, weights: ModelWeights) -> None:
    with pytest.raises(ShardError, match=f"found {ranks}: take a divisor of 16"):
        RankedDecoder(weights, DIMS, ranks)


def test_shards_of_the_model_are_those_that_are_served() -> None:
    dims = K3Dims()
    assert [dims.shard(ranks).num_attention_heads for ranks in (1, 8, 16)] == [96, 12, 6]
    assert [dims.shard(ranks).expert_intermediate_size for ranks in (1, 8, 16)] == [3072, 384, 192]
    with pytest.raises(ShardError, match="expected a number of ranks that divides num_attention"):
        dims.shard(64)
