"""One layer of the executor against its reference, step by step, from the reference's rows.

A step has a token of each request, or several that it verifies together. The reference takes them
one after the other and keeps what it has inside a step unrounded; from step to step state has the
formats in which it is stored. How many tokens a step keeps goes round: one, two and so on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import allocate_state
from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.layer_reference import LayerInputs, LayerOutputs, LayerReference
from k3decode.decode.packing import pack_layer
from k3decode.decode.placed_state import (
    carried,
    first_inputs,
    kept_tokens,
    place_state,
    written_state,
)
from k3decode.decode.random_weights import random_layer
from k3decode.dims import K3Dims
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["LayerCheck", "Stream", "judge_choice"]

_BIAS = "block_sparse_moe.gate.e_score_correction_bias"
# FP64 of all states of a step is the slowest part; a wrong state shows in later outputs anyway.
_STATE_EVERY = 8


@dataclass(frozen=True)
class Stream:
    """Rows between two layers, of T tokens of M requests each, BF16."""

    prefix: Tensor
    """[T, M, D]"""
    pending: Tensor | None
    """[T, M, D]; None before layer 0."""
    blocks: Tensor
    """[finished blocks, T, M, D]"""

    @classmethod
    def embedded(
        cls, dims: K3Dims, *, tokens: int, requests: int, seed: int, device: torch.device
    ) -> "Stream":
        """What layer 0 gets."""
        generator = torch.Generator(device).manual_seed(seed)
        shape = (tokens, requests, dims.hidden_size)
        rows = torch.randn(*shape, generator=generator, device=device)
        blocks = torch.empty(0, *shape, dtype=torch.bfloat16, device=device)
        return cls(prefix=rows.to(torch.bfloat16), pending=None, blocks=blocks)


def judge_choice(
    chosen: Tensor, logits: Tensor, rounded_logits: Tensor, bias: Tensor
) -> tuple[bool, int]:
    """Judge which experts were chosen.

    Args:
        chosen: by the executor, int64 [M, k].
        logits: of the exact reference, [M, E].
        rounded_logits: of the reference with roundings, [M, E].
        bias: [E].

    Returns:
        Whether every row whose choice is decided has the exact choice, and how many rows are not.
        A row is decided when the gap behind its last expert exceeds what two scores may move
        against each other: for each twice the largest difference that the roundings make among
        the best two times k experts. Others would have to pass k experts first.
    """
    scores = torch.sigmoid(logits)
    moved = (torch.sigmoid(rounded_logits.double()) - scores).abs()
    top_k = chosen.shape[1]
    ranking = torch.sort(scores + bias.double(), dim=-1, descending=True, stable=True)
    allowed = 2 * moved.gather(1, ranking.indices[:, : 2 * top_k]).amax(-1)
    gap = ranking.values[:, top_k - 1] - ranking.values[:, top_k]
    same = (chosen.sort(-1).values == ranking.indices[:, :top_k].sort(-1).values).all(-1)
    decided = gap > 2 * allowed
    return bool((same | ~decided).all()), int((~decided).sum())


class LayerCheck:
    """Runs all steps of one layer; afterwards `following` is what the next layer gets."""

    def __init__(
        self, dims: K3Dims, number: int, stream: Stream, *, seed: int, tokens: int = 1
    ) -> None:
        """Make the layer's weights, in the executor's form and in the reference's two.

        Args:
            dims: widths of the rank.
            number: 0-based layer number.
            stream: a multiple of `tokens` tokens.
            seed: of the weights.
            tokens: of each request in a step.
        """
        self._dims, self._number, self._stream = dims, number, stream
        total, requests, _ = stream.prefix.shape
        device = stream.prefix.device
        self._steps = total // tokens
        self._batch = Batch(tokens=tokens, requests=requests)
        tensors, experts = random_layer(dims, number, seed, device)
        self._bias = tensors.get(_BIAS)
        self._forms = [
            LayerReference(dims, number, tensors, experts, rounded=rounded)
            for rounded in (False, True)
        ]
        numbers = range(number, number + 1)
        self._state = allocate_state(dims, numbers, self._batch, device, context=total)
        packed = pack_layer(tensors, experts, dims, number)
        self._executor = DecodeExecutor(dims, [packed], self._state)
        self._captured = self._executor.prepare(self._batch)
        self._worst: dict[str, Judgement] = {}
        self._undecided = 0
        self.following = stream

    def run(self) -> dict[str, Any]:
        """Judge all steps; returns what a line of results says."""
        kept, inputs = 1, first_inputs(self._dims, self._number, self._stream)
        prefixes, pendings, added = [], [], []
        for step in range(self._steps):
            judges_state = step % _STATE_EVERY == 0
            outputs, chain = self._step(step, inputs, kept, judges_state=judges_state)
            prefixes += [exact.prefix.to(torch.bfloat16) for exact in outputs]
            pendings += [exact.pending.to(torch.bfloat16) for exact in outputs]
            added += [_with_pending(one) for one in chain]
            kept = kept_tokens(step, self._batch.tokens)
            inputs = _stored(carried(chain[kept - 1], outputs[kept - 1]))
        blocks = self._stream.blocks
        if self._number % self._dims.attn_res_block_size == 0:
            blocks = torch.cat([blocks, torch.stack(added)[None]])
        self.following = Stream(torch.stack(prefixes), torch.stack(pendings), blocks)
        return self._record(self._steps)

    def _record(self, steps: int) -> dict[str, Any]:
        wrong = {name: j.sentence for name, j in self._worst.items() if not j.passed}
        return {
            "layer": self._number,
            "attention": "mla" if self._dims.is_mla(self._number) else "kda",
            "feed_forward": "dense" if self._dims.is_dense(self._number) else "moe",
            "steps": steps,
            "requests": self._batch.requests,
            "tokens": self._batch.tokens,
            "kernels": self._captured.kernels,
            "outcome": "failed" if wrong else "passed",
            "undecided_rows": self._undecided,
            "worst": {
                name: round(j.worst, 3) if j.passed else None for name, j in self._worst.items()
            },
            "wrong": wrong,
        }

    def _rows_of(self, token: int, state: LayerInputs) -> LayerInputs:
        """What the stream brings for a token, with a state."""
        stream = self._stream
        return replace(
            state,
            prefix=stream.prefix[token],
            pending=None if stream.pending is None else stream.pending[token],
            blocks=stream.blocks[:, token],
        )

    def _step(
        self, step: int, state: LayerInputs, kept: int, *, judges_state: bool
    ) -> tuple[list[LayerOutputs], list[LayerInputs]]:
        """Judge a step's tokens; returns the exact outputs, and from which inputs, of each."""
        tokens = self._batch.tokens
        numbers = range(step * tokens, (step + 1) * tokens)
        given = [self._rows_of(number, state) for number in numbers]
        found, again = (self._replay(given, kept) for _ in range(2))
        for name, value in found.items():
            self._keep(judge_bitwise(f"{name} again", again[name], value))
        outputs, chain = [], []
        chains = [state, state]
        for token, number in enumerate(numbers):
            of_token = {name: value[:, token] for name, value in found.items()}
            inputs = [self._rows_of(number, one) for one in chains]
            chosen = None if self._bias is None else of_token["experts"].long()
            both = [form.apply(one, chosen) for form, one in zip(self._forms, inputs, strict=True)]
            self._judge_token(of_token, both, judges_state=judges_state)
            outputs.append(both[0])
            chain.append(inputs[0])
            chains = [carried(one, out) for one, out in zip(inputs, both, strict=True)]
        return outputs, chain

    def _judge_token(
        self, found: Mapping[str, Tensor], both: list[LayerOutputs], *, judges_state: bool
    ) -> None:
        """Judge a token of each request: `both` are the exact outputs and those with roundings."""
        exact, rounded = both
        judged = ["prefix", "attended", "hidden", "pending"]
        if judges_state:
            judged += ["row"] if exact.row is not None else ["memory", "taps"]
        for name in judged:
            same_dtype = getattr(rounded, name).to(found[name].dtype)
            axes = 2 if name == "memory" else 1
            self._keep(
                judge_close(
                    name,
                    found[name],
                    reference=getattr(exact, name),
                    same_dtype=same_dtype,
                    shared_axes=axes,
                )
            )
        if exact.logits is not None and rounded.logits is not None:
            chosen = found["experts"].long()
            self._judge_choice(found["logits"], chosen, exact.logits, rounded.logits)

    def _judge_choice(self, found: Tensor, chosen: Tensor, exact: Tensor, rounded: Tensor) -> None:
        if self._bias is None:
            return
        self._keep(judge_close("logits", found, reference=exact, same_dtype=rounded.float()))
        right, undecided = judge_choice(chosen, exact, rounded, self._bias)
        self._undecided += undecided
        sentence = "" if right else "expected the reference's experts in every decided row"
        worst = 0.0 if right else float("inf")
        self._keep(Judgement("experts", passed=right, worst=worst, sentence=sentence))

    def _keep(self, judgement: Judgement) -> None:
        before = self._worst.get(judgement.output)
        if before is None or judgement.worst > before.worst:
            self._worst[judgement.output] = judgement

    def _replay(self, given: list[LayerInputs], kept: int) -> dict[str, Tensor]:
        """Set rows and state, run the graph, copy what it wrote, by request and token."""
        batch, state, number = self._batch, self._state, self._number
        rows, inputs = self._executor.buffers, given[0]
        by_request = (batch.requests, batch.tokens)
        rows.prefix.copy_(torch.stack([one.prefix for one in given], dim=1).flatten(0, 1))
        pending = [one.pending for one in given if one.pending is not None]
        if pending:
            rows.pending.copy_(torch.stack(pending, dim=1).flatten(0, 1))
        blocks = torch.stack([one.blocks for one in given], dim=2).flatten(1, 2)
        rows.blocks[: blocks.shape[0]].copy_(blocks)
        place_state(state, number, inputs, batch, kept)
        self._captured.graph.replay()
        torch.cuda.synchronize()
        found = {
            name: getattr(rows, name).unflatten(0, by_request).clone()
            for name in ("prefix", "attended", "hidden", "pending", "logits")
        }
        found["experts"] = rows.experts[0].unflatten(0, by_request).clone()
        return found | written_state(state, number, batch)


def _with_pending(inputs: LayerInputs) -> Tensor:
    """The prefix that a block start keeps."""
    if inputs.pending is None:
        return inputs.prefix
    return (inputs.prefix.float() + inputs.pending.float()).to(torch.bfloat16)


def _stored(state: LayerInputs) -> LayerInputs:
    """State in the formats in which it is kept from step to step."""
    bf16 = torch.bfloat16
    return replace(
        state,
        taps=None if state.taps is None else state.taps.to(bf16),
        memory=None if state.memory is None else state.memory.float(),
        cache=None if state.cache is None else state.cache.to(bf16),
    )
