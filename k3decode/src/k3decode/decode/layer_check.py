"""One layer of the executor against its reference, step by step, from the reference's rows."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from k3decode.decode.batches import Batch
from k3decode.decode.buffers import DecodeState, allocate_state
from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.layer_reference import LayerInputs, LayerOutputs, LayerReference
from k3decode.decode.packing import pack_layer
from k3decode.decode.random_weights import random_layer
from k3decode.dims import K3Dims
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["LayerCheck", "Stream", "judge_choice"]

_BIAS = "block_sparse_moe.gate.e_score_correction_bias"
# FP64 of all states of a step is the slowest part; a wrong state shows in later outputs anyway.
_STATE_EVERY = 8


@dataclass(frozen=True)
class Stream:
    """Rows between two layers, of T steps with M requests each, BF16."""

    prefix: Tensor
    """[T, M, D]"""
    pending: Tensor | None
    """[T, M, D]; None before layer 0."""
    blocks: Tensor
    """[finished blocks, T, M, D]"""

    @classmethod
    def embedded(
        cls, dims: K3Dims, *, steps: int, requests: int, seed: int, device: torch.device
    ) -> "Stream":
        """What layer 0 gets."""
        generator = torch.Generator(device).manual_seed(seed)
        shape = (steps, requests, dims.hidden_size)
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

    def __init__(self, dims: K3Dims, number: int, stream: Stream, *, seed: int) -> None:
        """Make the layer's weights, in the executor's form and in the reference's two."""
        self._dims, self._number, self._stream = dims, number, stream
        steps, requests, _ = stream.prefix.shape
        device = stream.prefix.device
        self._batch = Batch(tokens=1, requests=requests)
        tensors, experts = random_layer(dims, number, seed, device)
        self._bias = tensors.get(_BIAS)
        self._forms = [
            LayerReference(dims, number, tensors, experts, rounded=rounded)
            for rounded in (False, True)
        ]
        numbers = range(number, number + 1)
        self._state = allocate_state(dims, numbers, self._batch, device, context=steps)
        packed = pack_layer(tensors, experts, dims, number)
        self._executor = DecodeExecutor(dims, [packed], self._state)
        self._captured = self._executor.prepare(self._batch)
        self._worst: dict[str, Judgement] = {}
        self._undecided = 0
        self.following = stream

    def run(self) -> dict[str, Any]:
        """Judge all steps; returns what a line of results says."""
        steps = self._stream.prefix.shape[0]
        inputs = self._first_inputs()
        prefixes, pendings, added = [], [], []
        for step in range(steps):
            inputs = self._rows_of(step, inputs)
            exact = self._step(step, inputs, judges_state=step % _STATE_EVERY == 0)
            prefixes.append(exact.prefix.to(torch.bfloat16))
            pendings.append(exact.pending.to(torch.bfloat16))
            added.append(_with_pending(inputs))
            inputs = _advanced(inputs, exact)
        blocks = self._stream.blocks
        if self._number % self._dims.attn_res_block_size == 0:
            blocks = torch.cat([blocks, torch.stack(added)[None]])
        self.following = Stream(torch.stack(prefixes), torch.stack(pendings), blocks)
        return self._record(steps)

    def _record(self, steps: int) -> dict[str, Any]:
        wrong = {name: j.sentence for name, j in self._worst.items() if not j.passed}
        return {
            "layer": self._number,
            "attention": "mla" if self._dims.is_mla(self._number) else "kda",
            "feed_forward": "dense" if self._dims.is_dense(self._number) else "moe",
            "steps": steps,
            "requests": self._batch.requests,
            "kernels": self._captured.kernels,
            "outcome": "failed" if wrong else "passed",
            "undecided_rows": self._undecided,
            "worst": {
                name: round(j.worst, 3) if j.passed else None for name, j in self._worst.items()
            },
            "wrong": wrong,
        }

    def _first_inputs(self) -> LayerInputs:
        dims, rows = self._dims, self._stream.prefix[0]
        requests, heads, width = rows.shape[0], dims.num_attention_heads, dims.kda_head_dim
        if dims.is_mla(self._number):
            cache = rows.new_zeros(requests, 0, dims.mla_row)
            return LayerInputs(rows, None, self._stream.blocks[:, 0], cache=cache)
        return LayerInputs(
            rows,
            None,
            self._stream.blocks[:, 0],
            taps=rows.new_zeros(requests, dims.kda_conv_taps - 1, 3 * dims.kda_width),
            memory=torch.zeros(requests, heads, width, width, device=rows.device),
        )

    def _rows_of(self, step: int, state: LayerInputs) -> LayerInputs:
        stream = self._stream
        return LayerInputs(
            prefix=stream.prefix[step],
            pending=None if stream.pending is None else stream.pending[step],
            blocks=stream.blocks[:, step],
            taps=state.taps,
            memory=state.memory,
            cache=state.cache,
        )

    def _step(self, step: int, inputs: LayerInputs, *, judges_state: bool) -> LayerOutputs:
        found, again = (self._replay(step, inputs) for _ in range(2))
        for name, value in found.items():
            self._keep(judge_bitwise(f"{name} again", again[name], value))
        chosen = None if self._bias is None else found["experts"].long()
        exact, rounded = (form.apply(inputs, chosen) for form in self._forms)
        judged = ["prefix", "attended", "hidden", "pending"]
        if judges_state:
            judged += ["row"] if inputs.cache is not None else ["memory", "taps"]
        for name in judged:
            same_dtype = getattr(rounded, name).to(found[name].dtype)
            reference = getattr(exact, name)
            axes = 2 if name == "memory" else 1
            self._keep(
                judge_close(
                    name,
                    found[name],
                    reference=reference,
                    same_dtype=same_dtype,
                    shared_axes=axes,
                )
            )
        if chosen is not None and exact.logits is not None and rounded.logits is not None:
            self._judge_choice(found, chosen, exact.logits, rounded.logits)
        return exact

    def _judge_choice(
        self, found: dict[str, Tensor], chosen: Tensor, exact: Tensor, rounded: Tensor
    ) -> None:
        if self._bias is None:
            return
        self._keep(
            judge_close("logits", found["logits"], reference=exact, same_dtype=rounded.float())
        )
        right, undecided = judge_choice(chosen, exact, rounded, self._bias)
        self._undecided += undecided
        sentence = "" if right else "expected the reference's experts in every decided row"
        worst = 0.0 if right else float("inf")
        self._keep(Judgement("experts", passed=right, worst=worst, sentence=sentence))

    def _keep(self, judgement: Judgement) -> None:
        before = self._worst.get(judgement.output)
        if before is None or judgement.worst > before.worst:
            self._worst[judgement.output] = judgement

    def _replay(self, step: int, inputs: LayerInputs) -> dict[str, Tensor]:
        """Set rows and state, run the graph, copy what it wrote."""
        rows, state, number = self._executor.buffers, self._state, self._number
        rows.prefix.copy_(inputs.prefix)
        if inputs.pending is not None:
            rows.pending.copy_(inputs.pending)
        rows.blocks[: inputs.blocks.shape[0]].copy_(inputs.blocks)
        _set_state(state, number, step, inputs)
        self._captured.graph.replay()
        torch.cuda.synchronize()
        found = {
            name: getattr(rows, name).clone()
            for name in ("prefix", "attended", "hidden", "pending", "logits")
        }
        found["experts"] = rows.experts[0].clone()
        if inputs.cache is not None:
            found["row"] = _cache_view(state, number)[:, step].clone()
        else:
            found["memory"] = state.kda_memory[number][1:].clone()
            found["taps"] = state.kda_taps[number][1:].clone()
        return found


def _cache_view(state: DecodeState, number: int) -> Tensor:
    """Cache rows by request and place, [B, places, L + R]."""
    pages = state.mla_pages[number]
    return pages.view(state.lengths.shape[0], -1, pages.shape[-1])


def _set_state(state: DecodeState, number: int, step: int, inputs: LayerInputs) -> None:
    requests = state.lengths.shape[0]
    device = state.lengths.device
    if inputs.memory is not None and inputs.taps is not None:
        state.kda_slots[:, 0] = torch.arange(1, requests + 1, device=device)
        state.kda_memory[number][1:].copy_(inputs.memory)
        state.kda_taps[number][1:].copy_(inputs.taps)
    if inputs.cache is not None:
        view = _cache_view(state, number)
        view[:, :step].copy_(inputs.cache)
        view[:, step:] = torch.nan
        state.lengths.fill_(step + 1)
        state.cache_slots.copy_(torch.arange(requests, device=device) * view.shape[1] + step)


def _with_pending(inputs: LayerInputs) -> Tensor:
    """The prefix that a block start keeps."""
    if inputs.pending is None:
        return inputs.prefix
    return (inputs.prefix.float() + inputs.pending.float()).to(torch.bfloat16)


def _advanced(inputs: LayerInputs, exact: LayerOutputs) -> LayerInputs:
    """The reference's state after a step, in the formats in which it is stored."""
    cache = inputs.cache
    if cache is not None and exact.row is not None:
        cache = torch.cat([cache, exact.row[:, None].to(torch.bfloat16)], dim=1)
    return LayerInputs(
        inputs.prefix,
        inputs.pending,
        inputs.blocks,
        taps=None if exact.taps is None else exact.taps.to(torch.bfloat16),
        memory=None if exact.memory is None else exact.memory.float(),
        cache=cache,
    )
