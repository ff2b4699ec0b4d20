"""One AttnRes launch with everything it touches, and what it should have written."""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from k3decode.op import Launch, Trial, poisoned
from k3decode.ops.attn_res.config import AttnResConfig
from k3decode.ops.attn_res.cost import attn_res_cost
from k3decode.ops.attn_res.reference import AttnResWeights, attn_res_mixture
from k3decode.recording import RecordedCall
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["AttnResInputs", "attn_res_trial", "replay"]


@dataclass(frozen=True)
class AttnResInputs:
    """Everything on one device; whole allocations, of which the first rows and columns are used."""

    config: AttnResConfig
    rows: int
    prefix: Tensor
    pending: Tensor
    blocks: Tensor
    direction: Tensor
    """FP32 [D], source norm times query row: exact, both have eight bits."""
    output_norm: Tensor
    out: Tensor

    def copied_to(self, device: torch.device) -> "AttnResInputs":
        """The same on a device, sharing nothing."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        tensors = {n: t.to(device, copy=True) for n, t in own.items() if isinstance(t, Tensor)}
        return replace(self, **tensors)


def attn_res_trial(before: AttnResInputs, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a launch on copies of these inputs, which lie on the CPU."""
    config, rows, width = before.config, before.rows, before.config.hidden_size
    used = before.copied_to(device)

    def run() -> None:
        launch(
            used.prefix[:rows, :width],
            used.pending[:rows, :width] if config.has_pending else None,
            used.blocks[:, :rows, :width],
            used.direction,
            used.output_norm if config.output_norm else None,
            used.out[:rows, :width],
            num_blocks=config.blocks,
            write_block=config.write_block,
            reset=config.reset,
            eps=config.eps,
        )

    return Trial(run=run, judge=lambda: _judge(before, used), cost=attn_res_cost(config, rows))


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument.
    """
    prefix, out = call.tensor("prefix"), call.tensor("out")
    pending, output_norm = call.optional_tensor("pending"), call.optional_tensor("output_norm")
    writes = call.arguments.get("write_block") is not None
    config = AttnResConfig(
        hidden_size=prefix.shape[-1],
        blocks=call.whole("num_blocks"),
        has_pending=pending is not None,
        write_block=call.whole("write_block") if writes else None,
        reset=bool(call.arguments.get("reset")),
        output_norm=output_norm is not None,
        eps=call.number("eps"),
    )
    before = AttnResInputs(
        config=config,
        rows=prefix.shape[0],
        prefix=prefix,
        pending=prefix if pending is None else pending,
        blocks=call.tensor("blocks"),
        direction=call.tensor("direction"),
        output_norm=torch.empty(0) if output_norm is None else output_norm,
        out=poisoned(*out.shape, dtype=out.dtype, device=torch.device("cpu")),
    )
    return attn_res_trial(before, launch, device)


def _judge(before: AttnResInputs, used: AttnResInputs) -> tuple[Judgement, ...]:
    config = before.config
    live = (slice(0, before.rows), slice(0, config.hidden_size))
    expected = before.copied_to(torch.device("cpu"))
    pending = before.pending[live]
    if config.reset:
        expected.prefix[live] = pending
    elif config.has_pending:
        total = before.prefix[live].float() + pending.float()
        expected.prefix[live] = total.to(torch.bfloat16)
    if config.write_block is not None:
        expected.blocks[config.write_block][live] = expected.prefix[live]
    sources = (*(before.blocks[i][live] for i in range(config.blocks)), expected.prefix[live])

    def mixture(dtype: torch.dtype) -> Tensor:
        point = AttnResWeights(
            source_norm=before.direction.to(dtype),
            query=torch.ones_like(before.direction, dtype=dtype),
            output_norm=before.output_norm.to(dtype) if config.output_norm else None,
            eps=config.eps,
        )
        return attn_res_mixture(tuple(source.to(dtype) for source in sources), point)

    # Outside the live part the output keeps its poison.
    around = used.out.cpu().clone()
    around[live] = before.out[live]
    return (
        judge_close(
            "out",
            used.out[live],
            reference=mixture(torch.float64),
            same_dtype=mixture(torch.float32).to(torch.bfloat16),
        ),
        judge_bitwise("around out", around, before.out),
        judge_bitwise("prefix", used.prefix, expected.prefix),
        judge_bitwise("blocks", used.blocks, expected.blocks),
        judge_bitwise("pending", used.pending, before.pending),
    )
