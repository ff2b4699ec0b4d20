"""One attention over the latent cache with everything it touches, and what it should have written.

Pages are owned in random order; pages of nobody, rows behind a context and bytes between pages hold
NaN, and table entries behind a context point outside the cache on either side. Every partial is
judged for itself against its own tokens; places of no partial must stay as they were.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.op import Launch, Trial, poisoned
from k3decode.ops.mla.cache_format import cache_format_named
from k3decode.ops.mla.case_inputs import (
    DENSE_PAGES,
    PageLayout,
    exact_values,
    in_format,
    paged_rows,
)
from k3decode.ops.mla_decode.config import MlaDecodeConfig
from k3decode.ops.mla_decode.cost import mla_decode_cost
from k3decode.ops.mla_decode.launch import (
    CacheScales,
    PagedCache,
    Partials,
    config_for,
    make_partials,
    split_rule,
)
from k3decode.ops.mla_decode.reference import Attended, attend, attend_rounded
from k3decode.ops.mla_decode.schedule import Piece, partial_count, pieces, visible_tokens
from k3decode.recording import RecordedCall, RecordingError
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["AttentionInputs", "AttentionShape", "attention_inputs", "attention_trial", "replay"]

_DIMS = K3Dims()
_TP8 = _DIMS.num_attention_heads // 8
_SHARE_DTYPES = {"bf16": torch.bfloat16, "e4m3": torch.float16}


@dataclass(frozen=True)
class AttentionShape:
    """What is attended to, and how it is cut."""

    lengths: tuple[int, ...]
    cache_format: Literal["bf16", "e4m3"]
    heads: int = _TP8
    layout: PageLayout = DENSE_PAGES
    tokens_per_request: int = 1
    parts: int | None = 4
    """None: as many as the device has room for."""
    row_padding: int = 0
    scales: CacheScales | None = None
    query_factor: float = 1.0
    """Factor on the queries: large ones leave nearly all weight with one token."""
    alter: "Callable[[AttentionInputs], None] | None" = None
    """Overwrites parts of the queries and of the cache."""

    @property
    def config(self) -> MlaDecodeConfig:
        """Its variant."""
        return config_for(_DIMS, self.cache_format)

    @property
    def visible(self) -> list[int]:
        """Tokens that each row sees."""
        return visible_tokens(self.lengths, self.tokens_per_request)


@dataclass(frozen=True)
class AttentionInputs:
    """Everything on one device."""

    query: Tensor
    """[M, H, L + R]"""
    cache: PagedCache
    partials: Partials

    def rows_of(self, piece: Piece) -> Tensor:
        """Stored cache rows of a piece, gathered."""
        request = piece.row // self.cache.tokens_per_request
        page_tokens = self.cache.pages.shape[1]
        first, end = piece.first_token, piece.first_token + piece.tokens
        pages = self.cache.table[request, first // page_tokens : -(-end // page_tokens)].long()
        rows = self.cache.pages[pages].flatten(0, 1)
        return rows[first % page_tokens :][: piece.tokens]


def attention_inputs(shape: AttentionShape, device: torch.device) -> AttentionInputs:
    """Made-up tensors of a shape, on a device."""
    config = shape.config
    generator = torch.Generator(device).manual_seed(1000 * len(shape.lengths) + shape.lengths[0])
    pages, table = paged_rows(
        shape.lengths, shape.layout, config.width, shape.cache_format, generator
    )
    rows = len(shape.visible)
    width = shape.heads * config.width
    query = poisoned(rows, width + shape.row_padding, dtype=torch.float32, device=device)
    drawn = torch.randn(rows, width, generator=generator, device=device)
    query[:, :width] = shape.query_factor * drawn
    stored = in_format(query, shape.cache_format)
    inputs = AttentionInputs(
        query=stored[:, :width].unflatten(1, (shape.heads, config.width)),
        cache=PagedCache(
            pages=pages,
            table=table,
            lengths=torch.tensor(shape.lengths, dtype=torch.int32, device=device),
            tokens_per_request=shape.tokens_per_request,
        ),
        partials=_partials(shape, _partial_count(shape, rows, device), device),
    )
    if shape.alter is not None:
        shape.alter(inputs)
    return inputs


def _partial_count(shape: AttentionShape, rows: int, device: torch.device) -> int:
    if shape.parts is None and device.type == "cuda":
        made = make_partials(shape.config, rows, shape.heads, device, shape.tokens_per_request)
        return int(made.lse.shape[0])
    together = split_rule(shape.config, device).rows_together(shape.tokens_per_request)
    return partial_count(rows, shape.parts or 1, together)


def _partials(shape: AttentionShape, count: int, device: torch.device) -> Partials:
    fp32 = torch.float32
    return Partials(
        latents=poisoned(count, shape.heads, shape.config.latent, dtype=fp32, device=device),
        lse=poisoned(count, shape.heads, dtype=fp32, device=device),
    )


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch; partials are poisoned anew.

    Raises:
        RecordingError: the recording lacks an argument, or is of other widths or another scale of
            scores than K3's.
    """
    query, pages = call.tensor("query"), call.tensor("cache.pages")
    lengths = call.tensor("cache.lengths")
    shape = AttentionShape(
        lengths=tuple(lengths.tolist()),
        cache_format=cache_format_named(str(call.arguments.get("config.cache_format"))),
        heads=query.shape[1],
        layout=PageLayout(pages.shape[1]),
        tokens_per_request=call.whole("cache.tokens_per_request"),
        scales=_recorded_scales(call),
    )
    widths, scale = (query.shape[-1], pages.shape[-1]), call.number("score_scale")
    if widths != (shape.config.width,) * 2 or scale != _DIMS.mla_scale:
        raise RecordingError(
            f"{call.op}, {call.name}: expected rows of {shape.config.width} columns and scores "
            f"times {_DIMS.mla_scale}, found {widths[0]} of the query, {widths[1]} of the cache, "
            f"and {scale}"
        )
    count = call.tensor("partials.lse").shape[0]
    inputs = AttentionInputs(
        query=query.to(device),
        cache=PagedCache(
            pages=pages.to(device),
            table=call.tensor("cache.table").to(device),
            lengths=lengths.to(device),
            tokens_per_request=shape.tokens_per_request,
        ),
        partials=_partials(shape, count, device),
    )
    return attention_trial(shape, inputs, launch, device)


def _recorded_scales(call: RecordedCall) -> CacheScales | None:
    if "scales" in call.arguments:
        return None
    return CacheScales(query=call.number("scales.query"), cache=call.number("scales.cache"))


def attention_trial(
    shape: AttentionShape, inputs: AttentionInputs, launch: Launch, device: torch.device
) -> Trial:
    """Make the trial of a launch on these inputs, which lie on the device."""
    rows, tokens_per_request = len(shape.visible), shape.tokens_per_request
    rule = split_rule(shape.config, device)
    parts = inputs.partials.parts(rows, rule.rows_together(tokens_per_request))
    found = pieces(shape.visible, rule, parts, tokens_per_request)

    def run() -> None:
        launch(
            inputs.query,
            inputs.cache,
            inputs.partials,
            config=shape.config,
            score_scale=_DIMS.mla_scale,
            scales=shape.scales,
        )

    return Trial(
        run=run,
        judge=lambda: _judge(shape, inputs, found),
        cost=mla_decode_cost(
            shape.config,
            lengths=shape.lengths,
            visible=shape.visible,
            heads=shape.heads,
            page_tokens=shape.layout.page_tokens,
            pieces=len(found),
        ),
    )


def _expected(
    shape: AttentionShape, inputs: AttentionInputs, piece: Piece
) -> tuple[Attended, Attended]:
    """Attention of one piece, exact and as a kernel rounds."""
    scales, latent = shape.scales or CacheScales(), shape.config.latent
    query = exact_values(inputs.query[piece.row], torch.float64)
    rows = exact_values(inputs.rows_of(piece), torch.float64)
    scale = _DIMS.mla_scale * scales.query * scales.cache
    exact = attend(query, rows, latent, scale)
    rounded = attend_rounded(query, rows, latent, scale, _SHARE_DTYPES[shape.cache_format])
    return (
        Attended(exact.latents * scales.cache, exact.lse),
        Attended(rounded.latents * scales.cache, rounded.lse),
    )


def _judge(
    shape: AttentionShape, inputs: AttentionInputs, written: list[Piece]
) -> tuple[Judgement, ...]:
    partials = inputs.partials
    found = [piece for piece in written if piece.tokens]
    # Of rows that go together some may see nothing of a part: a logarithm of minus infinity, and
    # latents that nobody reads.
    unseen = [piece.partial for piece in written if not piece.tokens]
    places = [piece.partial for piece in found]
    around_latents, around_lse = partials.latents.clone(), partials.lse.clone()
    around_latents[places + unseen] = torch.nan
    around_lse[places] = torch.nan
    expected_lse = torch.full_like(around_lse, torch.nan)
    expected_lse[unseen] = -torch.inf
    untouched = (
        judge_bitwise("other latents", around_latents, torch.full_like(around_latents, torch.nan)),
        judge_bitwise("other logarithms", around_lse, expected_lse),
    )
    if not found:
        return untouched
    pairs = [_expected(shape, inputs, piece) for piece in found]
    exact, rounded = zip(*pairs, strict=True)
    return (
        judge_close(
            "latents",
            partials.latents[places],
            reference=torch.stack([one.latents for one in exact]),
            same_dtype=torch.stack([one.latents for one in rounded]),
            # With few tokens the rounding of one share is the error of all columns of a head, so
            # the heads together show how large it may be.
            shared_axes=2,
        ),
        # One scale for all: heads and pieces see tokens of one distribution.
        judge_close(
            "logarithms",
            partials.lse[places],
            reference=torch.stack([one.lse for one in exact]),
            same_dtype=torch.stack([one.lse for one in rounded]),
            shared_axes=2,
        ),
        *untouched,
    )
