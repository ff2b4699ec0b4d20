"""AttnRes against a formulation over the whole history of branch outputs."""

import dataclasses

import pytest
import torch

from k3decode.difference import relative_error
from k3decode.ops.attn_res.reference import (
    AttnResWeights,
    ResidualStream,
    after_attention,
    attn_res_mixture,
    before_attention,
    final_rows,
)

TOKENS, HIDDEN, LAYERS = 3, 6, 11
TOLERANCE = 2e-6


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def weights_of(seed: int) -> AttnResWeights:
    return AttnResWeights(
        source_norm=1 + draw(seed, HIDDEN) / 4,
        query=draw(seed + 1, HIDDEN),
        output_norm=1 + draw(seed + 2, HIDDEN) / 4,
        eps=1e-5,
    )


def whole_history(
    embedding: torch.Tensor,
    outputs: list[torch.Tensor],
    block_size: int,
    weights: AttnResWeights,
) -> torch.Tensor:
    """A reading after some branch outputs (attention 0, feed-forward 0, attention 1, ...).

    Block 0 is the embedding; block k is the sum of all outputs of the k-th `block_size` layers. The
    sources are all finished blocks and the sum of the outputs since the last one, where a block
    counts as finished only once an output of the next layers exists.
    """
    per_block = 2 * block_size
    groups = [outputs[i : i + per_block] for i in range(0, len(outputs), per_block)]
    sources = [embedding, *(torch.stack(group).sum(0) for group in groups)]
    scores = []
    for source in sources:
        normed = source / torch.sqrt(source.square().mean(-1, keepdim=True) + weights.eps)
        scores.append((normed * weights.source_norm) @ weights.query)
    shares = torch.stack(scores, dim=-1).softmax(dim=-1)
    mixture = torch.stack(sources, dim=-1) @ shares[..., None]
    mixed = mixture[..., 0]
    if weights.output_norm is None:
        return mixed
    scale = torch.sqrt(mixed.square().mean(-1, keepdim=True) + weights.eps)
    return mixed / scale * weights.output_norm


# A block per layer, blocks that end inside and at the end of the layers, and one block only.
@pytest.mark.parametrize("block_size", [1, 3, 4, 11, 12])
def test_stream_equals_whole_history(block_size: int) -> None:
    embedding = draw(0, TOKENS, HIDDEN)
    stream, pending = ResidualStream(prefix=embedding), None
    outputs: list[torch.Tensor] = []
    for layer in range(LAYERS):
        weights = weights_of(100 + 10 * layer)
        rows, stream = before_attention(layer, block_size, stream, pending, weights)
        expected = whole_history(embedding, outputs, block_size, weights)
        assert relative_error(rows, expected) < TOLERANCE
        outputs.append(draw(1000 + layer, TOKENS, HIDDEN))
        rows, stream = after_attention(layer, block_size, stream, outputs[-1], weights)
        expected = whole_history(embedding, outputs, block_size, weights)
        assert relative_error(rows, expected) < TOLERANCE
        pending = draw(2000 + layer, TOKENS, HIDDEN)
        outputs.append(pending)
    assert pending is not None
    final = dataclasses.replace(weights_of(7), output_norm=None)
    rows = final_rows(stream, pending, final)
    assert relative_error(rows, whole_history(embedding, outputs, block_size, final)) < TOLERANCE


def test_without_blocks_the_mixture_is_the_prefix() -> None:
    prefix = draw(3, TOKENS, HIDDEN)
    weights = dataclasses.replace(weights_of(4), output_norm=None)
    assert relative_error(attn_res_mixture((prefix,), weights), prefix) < 1e-6


def test_a_block_is_written_at_block_starts_only_and_resets_the_prefix() -> None:
    stream, weights = ResidualStream(prefix=draw(0, TOKENS, HIDDEN)), weights_of(1)
    counts = []
    for layer in range(6):
        _, stream = before_attention(layer, 3, stream, draw(5, TOKENS, HIDDEN), weights)
        counts.append(len(stream.blocks))
        attention = draw(6, TOKENS, HIDDEN)
        _, stream = after_attention(layer, 3, stream, attention, weights)
        assert torch.equal(stream.prefix, attention) == (layer % 3 == 0)
    assert counts == [1, 1, 1, 2, 2, 2]


def test_a_forgotten_prefix_reset_is_noticed() -> None:
    weights = weights_of(1)
    stream = ResidualStream(prefix=draw(0, TOKENS, HIDDEN))
    _, stream = before_attention(0, 3, stream, None, weights)
    attention = draw(6, TOKENS, HIDDEN)
    right, _ = after_attention(0, 3, stream, attention, weights)
    wrong, _ = after_attention(1, 3, stream, attention, weights)
    assert relative_error(wrong, right) > 1000 * TOLERANCE
