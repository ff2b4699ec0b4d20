"""One combination of partial attention with everything it touches, and what it should have written.

Partials of no piece hold NaN; so do the latents of ranks without tokens and the gates of rows
without tokens, which must give zeros. Outputs lie between NaN columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.op import Launch, Trial, poisoned
from k3decode.ops.mla_combine.config import MlaCombineConfig
from k3decode.ops.mla_combine.cost import mla_combine_cost
from k3decode.ops.mla_combine.launch import CutRows, ValueLift, variants
from k3decode.ops.mla_combine.reference import combine, lift_and_gate
from k3decode.ops.mla_decode.launch import Partials, config_for, split_rule
from k3decode.ops.mla_decode.reference import Attended
from k3decode.ops.mla_decode.schedule import (
    Piece,
    SplitRule,
    partial_count,
    pieces,
    visible_tokens,
)
from k3decode.recording import RecordedCall, RecordingError
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = [
    "VARIANTS",
    "CombineInputs",
    "CombineShape",
    "combine_inputs",
    "combine_trial",
    "replay",
]

_DIMS = K3Dims()
_CPU = torch.device("cpu")
_RULE = split_rule(config_for(_DIMS, "bf16"), _CPU)

VARIANTS = variants(_DIMS)
"""What a model needs, by name."""


@dataclass(frozen=True)
class CombineShape:
    """What is combined, and how it was cut."""

    lengths: tuple[int, ...]
    """Tokens of each request; for ranks, partials with tokens of each row."""
    heads: int
    variant: str = "parts_to_values"
    parts: int = 7
    """Parts of the line of tiles, or ranks."""
    tokens_per_request: int = 1
    together: bool = False
    """Whether the rows of a request share parts."""
    row_padding: int = 0
    spread: float = 3.0
    """Standard deviation of the logarithms."""
    alter: Callable[[Tensor, Tensor], None] | None = None
    """Overwrites parts of the latents that count and of the gates."""
    recorded_places: tuple[tuple[int, ...], ...] | None = None
    """Partials of each row, where they do not follow from the lengths."""

    @property
    def config(self) -> MlaCombineConfig:
        """Its variant."""
        return VARIANTS[self.variant]

    @property
    def rows(self) -> int:
        """M."""
        return len(self.lengths) * self.tokens_per_request

    @property
    def rule(self) -> SplitRule:
        """How its partials were cut."""
        return replace(_RULE, together=self.together)

    @property
    def count(self) -> int:
        """Partials of all rows, those of no piece included."""
        if self.config.source == "ranks":
            return self.rows * self.parts
        together = self.rule.rows_together(self.tokens_per_request)
        return partial_count(self.rows, self.parts, together)

    @property
    def pieces(self) -> list[Piece]:
        """Stretches of tokens that have a partial."""
        visible = visible_tokens(self.lengths, self.tokens_per_request)
        return pieces(visible, self.rule, self.parts, self.tokens_per_request)

    @property
    def places(self) -> list[list[int]]:
        """Partials of each row, but those in which it sees no token."""
        if self.recorded_places is not None:
            return [list(places) for places in self.recorded_places]
        found: list[list[int]] = [[] for _ in range(self.rows)]
        if self.config.source == "ranks":
            for row, count in enumerate(self.lengths):
                found[row] = [(rank + row) % self.parts * self.rows + row for rank in range(count)]
            return found
        for piece in self.pieces:
            if piece.tokens:
                found[piece.row].append(piece.partial)
        return found


@dataclass(frozen=True)
class CombineInputs:
    """Everything on one device."""

    latents: Tensor
    lse: Tensor
    lengths: Tensor
    kv_up: Tensor
    """Per head N key rows, then V value rows, [H, N + V, L]."""
    gate: Tensor
    out: Tensor
    """Rows, and one behind them; values or latents, and padding."""
    out_lse: Tensor

    def copied_to(self, device: torch.device) -> "CombineInputs":
        """The same on a device, sharing nothing."""
        return CombineInputs(**{name: t.to(device, copy=True) for name, t in vars(self).items()})


def combine_inputs(shape: CombineShape) -> CombineInputs:
    """Made-up tensors of a shape, on the CPU."""
    config, rows, heads = shape.config, shape.rows, shape.heads
    generator = torch.Generator().manual_seed(100 * rows + heads)
    ranks = config.source == "ranks"
    count = shape.count
    fp32, bf16 = torch.float32, torch.bfloat16
    latents = poisoned(count, heads, config.latent, dtype=fp32, device=_CPU)
    lse = poisoned(count, heads, dtype=fp32, device=_CPU)
    if ranks:
        lse[:] = -torch.inf
    else:
        lse[[piece.partial for piece in shape.pieces if not piece.tokens]] = -torch.inf
    gate = poisoned(rows, heads * config.value + shape.row_padding, dtype=bf16, device=_CPU)
    for row, places in enumerate(shape.places):
        drawn = torch.randn(len(places), heads, config.latent, generator=generator)
        lse[places] = 9 + shape.spread * torch.randn(len(places), heads, generator=generator)
        if places:
            gate[row] = torch.randn(gate.shape[1], generator=generator).to(bf16)
            if shape.alter is not None:
                shape.alter(drawn, gate[row])
        latents[places] = drawn
    width = _DIMS.qk_nope_head_dim + config.value
    kv_up = torch.randn(heads, width, config.latent, generator=generator)
    values = config.output == "values"
    per_row = heads * (config.value if values else config.latent)
    return CombineInputs(
        latents=latents,
        lse=lse,
        lengths=torch.tensor(shape.lengths, dtype=torch.int32),
        kv_up=(kv_up / config.latent**0.5).to(bf16),
        gate=gate,
        out=poisoned(
            rows + 1,
            per_row + shape.row_padding,
            dtype=bf16 if values else fp32,
            device=_CPU,
        ),
        out_lse=poisoned(rows + 1, heads, dtype=fp32, device=_CPU),
    )


def _out_view(out: Tensor, shape: CombineShape) -> Tensor:
    config, heads = shape.config, shape.heads
    if config.output == "values":
        return out[: shape.rows, : heads * config.value]
    return out[: shape.rows].view(shape.rows, heads, config.latent)


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument, or is of other widths than K3's.
    """
    shape, lse = _recorded_shape(call), call.tensor("partials.lse")
    config, rows, heads = shape.config, shape.rows, shape.heads
    latents, nothing = call.tensor("partials.latents"), torch.empty(0)
    values = config.output == "values"
    width = heads * (config.value if values else config.latent)
    if latents.shape[2] != config.latent:
        raise RecordingError(
            f"{call.op}, {call.name}: expected latents of {config.latent} columns, found "
            f"{list(latents.shape)}"
        )
    dtype = torch.bfloat16 if values else torch.float32
    recorded = CombineInputs(
        latents=latents,
        lse=lse,
        lengths=torch.tensor(shape.lengths, dtype=torch.int32),
        kv_up=call.tensor("lift.value_up") if values else nothing.view(0, 0, 0),
        gate=call.tensor("lift.gate") if values else nothing.view(0, 0),
        out=poisoned(rows + 1, width, dtype=dtype, device=_CPU),
        out_lse=poisoned(rows + 1, heads, dtype=torch.float32, device=_CPU),
    )
    return combine_trial(shape, recorded, launch, device)


def _recorded_shape(call: RecordedCall) -> CombineShape:
    lse = call.tensor("partials.lse")
    rows, (count, heads) = call.tensor("out").shape[0], lse.shape
    variant = f"{call.arguments['config.source']}_to_{call.arguments['config.output']}"
    shape = CombineShape((0,) * rows, heads, variant)
    if shape.config.source == "ranks":
        counted = (lse > -torch.inf).any(dim=1).view(-1, rows)
        found = [
            tuple(place * rows + row for place in counted[:, row].nonzero()[:, 0].tolist())
            for row in range(rows)
        ]
        return replace(shape, parts=count // rows, recorded_places=tuple(found))
    together = bool(call.arguments.get("cut.rule.together", False))
    rule = SplitRule(
        call.whole("cut.rule.tile_tokens"), call.whole("cut.rule.fewest_tiles"), together
    )
    if rule != replace(_RULE, together=together):
        raise RecordingError(f"{call.op}, {call.name}: expected parts cut by {_RULE}, found {rule}")
    tokens = call.whole("cut.tokens_per_request")
    shared = rule.rows_together(tokens)
    return replace(
        shape,
        lengths=tuple(call.tensor("cut.lengths").tolist()),
        parts=count // shared - rows // shared + 1,
        tokens_per_request=tokens,
        together=together,
    )


def combine_trial(
    shape: CombineShape, before: CombineInputs, launch: Launch, device: torch.device
) -> Trial:
    """Make the trial of a launch on copies of these inputs, which lie on the CPU."""
    config, rows = shape.config, shape.rows
    used = before.copied_to(device)
    values = config.output == "values"
    width = shape.heads * config.value
    cut = CutRows(used.lengths, shape.rule, shape.tokens_per_request)
    lift = ValueLift(used.kv_up[:, -config.value :], used.gate[:, :width])

    def run() -> None:
        launch(
            Partials(used.latents, used.lse),
            _out_view(used.out, shape),
            config=config,
            cut=cut if config.source == "parts" else None,
            lift=lift if values else None,
            out_lse=None if values else used.out_lse[:rows],
        )

    return Trial(
        run=run,
        judge=lambda: _judge(shape, before, used),
        cost=mla_combine_cost(config, rows, shape.heads, partials=sum(map(len, shape.places))),
    )


def _combined(shape: CombineShape, inputs: CombineInputs, dtype: torch.dtype) -> list[Attended]:
    return [
        combine(inputs.latents[places].to(dtype), inputs.lse[places].to(dtype))
        for places in shape.places
    ]


def _judge(
    shape: CombineShape, before: CombineInputs, used: CombineInputs
) -> tuple[Judgement, ...]:
    exact, rounded = (_combined(shape, before, dtype) for dtype in (torch.float64, torch.float32))
    out, out_lse = used.out.cpu(), used.out_lse.cpu()
    around = out.clone()
    _out_view(around, shape)[:] = torch.nan
    untouched = judge_bitwise("around", around, before.out)
    found = _out_view(out, shape)
    if shape.config.output == "values":
        return (_judge_values(shape, before, found, exact, rounded), untouched)
    around_lse = out_lse.clone()
    around_lse[: shape.rows] = torch.nan
    return (
        judge_close(
            "latents",
            found,
            reference=torch.stack([one.latents for one in exact]),
            same_dtype=torch.stack([one.latents for one in rounded]),
        ),
        judge_close(
            "logarithms",
            out_lse[: shape.rows],
            reference=torch.stack([one.lse for one in exact]),
            same_dtype=torch.stack([one.lse for one in rounded]),
        ),
        untouched,
        judge_bitwise("around logarithms", around_lse, before.out_lse),
    )


def _judge_values(
    shape: CombineShape,
    inputs: CombineInputs,
    found: Tensor,
    exact: list[Attended],
    rounded: list[Attended],
) -> Judgement:
    config = shape.config
    value_up = inputs.kv_up[:, -config.value :]
    expected = []
    for attended, dtype in ((exact, torch.float64), (rounded, torch.float32)):
        rows = []
        for row, one in enumerate(attended):
            gate = inputs.gate[row, : found.shape[1]].to(dtype)
            gated = lift_and_gate(
                one.latents, value_up.to(dtype), gate, rounded=dtype == torch.float32
            )
            rows.append(gated if shape.places[row] else torch.zeros_like(gated))
        expected.append(torch.stack(rows))
    return judge_close(
        "values", found, reference=expected[0], same_dtype=expected[1].to(torch.bfloat16)
    )
