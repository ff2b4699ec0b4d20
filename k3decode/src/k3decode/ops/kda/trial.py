"""One KDA launch with everything it touches, and what it should have written.

Stored taps are judged bit by bit, outputs and the recurrent states by the rounding of the decay
gate that the specification names; every other byte of every buffer must be as it was.
"""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from k3decode.op import Launch, Trial, poisoned
from k3decode.ops.kda.config import KdaConfig
from k3decode.ops.kda.cost import kda_step_cost
from k3decode.ops.kda.launch import KdaStepWeights
from k3decode.ops.kda.paged_reference import kda_after_each_token
from k3decode.ops.kda.reference import KdaProjection, KdaState, KdaWeights
from k3decode.recording import RecordedCall
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["KdaInputs", "kda_trial", "replay"]


@dataclass(frozen=True)
class KdaInputs:
    """Everything on one device; whole allocations behind the views that a launch gets."""

    config: KdaConfig
    projection: Tensor
    """[B q, at least the projection's width]"""
    weights: KdaStepWeights
    slots: Tensor
    """[B, q]"""
    accepted: Tensor
    """[B]; ones where a request has one token."""
    conv_pages: Tensor
    """[P, at least (q + 2) 3 C]"""
    memory_pages: Tensor
    """[P, at least H 128 128]"""
    out: Tensor
    """[at least B q, at least C]"""

    def copied_to(self, device: torch.device) -> "KdaInputs":
        """The same on a device, sharing nothing."""
        weights = KdaStepWeights(
            **{
                f.name: getattr(self.weights, f.name).to(device, copy=True)
                for f in fields(self.weights)
            }
        )
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        tensors = {n: t.to(device, copy=True) for n, t in own.items() if isinstance(t, Tensor)}
        return replace(self, weights=weights, **tensors)

    @property
    def requests(self) -> int:
        """B."""
        return int(self.slots.shape[0])

    @property
    def conv_state(self) -> Tensor:
        """View [P, q + 2, 3 C]."""
        taps, width = self.config.window, 3 * self.config.channels
        return self.conv_pages[:, : taps * width].unflatten(1, (taps, width))

    @property
    def memory(self) -> Tensor:
        """View [P, H, V, K]."""
        c = self.config
        shape = (c.heads, c.head_dim, c.head_dim)
        return self.memory_pages[:, : c.channels * c.head_dim].unflatten(1, shape)

    @property
    def start_pages(self) -> Tensor:
        """Page of each request that the state is read from, [B]."""
        last = self.accepted.long() - 1
        return self.slots.gather(1, last[:, None])[:, 0].long()

    @property
    def live(self) -> list[int]:
        """Requests that are no padding."""
        served = (self.slots[:, 0] > 0) & (self.start_pages > 0)
        return [int(b) for b in served.nonzero()[:, 0]]


def kda_trial(before: KdaInputs, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a launch on copies of these inputs, which lie on the CPU."""
    config = before.config
    used = before.copied_to(device)
    rows = before.requests * config.tokens

    def run() -> None:
        launch(
            used.projection,
            used.weights,
            used.slots,
            used.conv_state,
            used.memory,
            used.out[:rows, : config.channels],
            config=config,
            accepted=used.accepted if config.tokens > 1 else None,
        )

    return Trial(
        run=run,
        judge=lambda: _judge(before, used),
        cost=kda_step_cost(config, before.requests, live=len(before.live)),
    )


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument.
    """
    config = KdaConfig(
        heads=call.whole("config.heads"),
        head_dim=call.whole("config.head_dim"),
        gate_rank=call.whole("config.gate_rank"),
        conv_taps=call.whole("config.conv_taps"),
        gate_lower_bound=call.number("config.gate_lower_bound"),
        qk_norm_eps=call.number("config.qk_norm_eps"),
        norm_eps=call.number("config.norm_eps"),
        tokens=call.whole("config.tokens"),
        split=call.whole("config.split") if "config.split" in call.arguments else 1,
    )
    slots, accepted = call.tensor("slots"), call.optional_tensor("accepted")
    out = call.tensor("out")
    before = KdaInputs(
        config=config,
        projection=call.tensor("projection"),
        weights=KdaStepWeights(
            **{f.name: call.tensor(f"weights.{f.name}") for f in fields(KdaStepWeights)}
        ),
        slots=slots,
        accepted=torch.ones_like(slots[:, 0]) if accepted is None else accepted,
        conv_pages=call.tensor("conv_state").flatten(1),
        memory_pages=call.tensor("memory").flatten(1),
        out=poisoned(*out.shape, dtype=out.dtype, device=torch.device("cpu")),
    )
    return kda_trial(before, launch, device)


def _expected(inputs: KdaInputs, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Outputs [L, q, C] and memories after each token [L, q, H, V, K] of the live requests.

    FP32 with the specified rounding of the decay gate, FP64 without.
    """
    c, live = inputs.config, inputs.live
    used = inputs.projection[:, : c.projection_width].unflatten(0, (-1, c.tokens))[live].to(dtype)
    qkv, gate, factor, beta = used.split([3 * c.channels, c.channels, c.gate_rank, c.heads], -1)
    raw_decay = factor @ inputs.weights.f_b.to(dtype).T
    if dtype == torch.float32:
        raw_decay = raw_decay.to(torch.bfloat16).to(dtype)
    weights = KdaWeights(
        in_proj=torch.empty(0),
        f_b_proj=inputs.weights.f_b,
        o_proj=torch.empty(0),
        conv_weight=inputs.weights.conv.to(dtype),
        a_log=inputs.weights.a_log.to(dtype),
        dt_bias=inputs.weights.dt_bias.to(dtype),
        o_norm=inputs.weights.o_norm.to(dtype),
        gate_lower_bound=c.gate_lower_bound,
        qk_norm_eps=c.qk_norm_eps,
        norm_eps=c.norm_eps,
    )
    state = KdaState(
        taps=_taps(inputs, live).to(dtype),
        memory=inputs.memory[inputs.start_pages[live]].to(dtype),
    )
    projection = KdaProjection(qkv=qkv, gate=gate, raw_decay=raw_decay, raw_beta=beta)
    return kda_after_each_token(projection, weights, state)


def _taps(inputs: KdaInputs, live: list[int]) -> Tensor:
    """Raw rows before the first token of some requests, oldest first, [L, taps - 1, 3 C]."""
    stored = torch.arange(inputs.config.conv_taps - 1)
    places = inputs.accepted[live].long()[:, None] - 1 + stored
    return inputs.conv_state[inputs.slots[live, :1].long(), places]


def _judge(before: KdaInputs, used: KdaInputs) -> tuple[Judgement, ...]:
    c, live = before.config, before.live
    exact, exact_memories = _expected(before, torch.float64)
    rounded, rounded_memories = _expected(before, torch.float32)
    written = [
        (int(before.slots[b, t]), i, t)
        for i, b in enumerate(live)
        for t in range(c.tokens)
        if before.slots[b, t] > 0
    ]
    pages, places, tokens = zip(*written, strict=True) if written else ((), (), ())
    after = used.copied_to(torch.device("cpu"))
    chosen = after.memory[list(pages)]
    after.memory[list(pages)] = before.memory[list(pages)]
    rows = [b * c.tokens + t for b in live for t in range(c.tokens)]
    outputs = after.out[rows, : c.channels]
    after.out[rows, : c.channels] = before.out[rows, : c.channels]
    return (
        judge_close(
            "out",
            outputs,
            reference=exact.flatten(0, 1),
            same_dtype=rounded.flatten(0, 1).to(torch.bfloat16),
        ),
        judge_close(
            "memory",
            chosen,
            reference=exact_memories[list(places), list(tokens)],
            same_dtype=rounded_memories[list(places), list(tokens)],
            shared_axes=2,
        ),
        judge_bitwise("taps", after.conv_pages, _expected_taps(before)),
        judge_bitwise("other pages", after.memory_pages, before.memory_pages),
        judge_bitwise("other outputs", after.out, _expected_around(before)),
    )


def _expected_taps(before: KdaInputs) -> Tensor:
    """All convolution pages: the two newest accepted rows, then the new ones."""
    c = before.config
    after = before.copied_to(torch.device("cpu"))
    new = before.projection[:, : 3 * c.channels].unflatten(0, (-1, c.tokens))
    live = before.live
    kept = _taps(before, live)[:, 1:]
    after.conv_state[before.slots[live, 0].long()] = torch.cat([kept, new[live]], dim=1)
    return after.conv_pages


def _expected_around(before: KdaInputs) -> Tensor:
    """The whole output where live requests wrote nothing: zeros in the rows of padding."""
    c = before.config
    expected = before.out.clone()
    for b in range(before.requests):
        if b not in before.live:
            expected[b * c.tokens : (b + 1) * c.tokens, : c.channels] = 0.0
    return expected
