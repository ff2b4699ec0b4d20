"""Cases of attention over the latent cache.

Pages are owned in random order; pages of nobody, rows behind a context and bytes between pages hold
NaN, and table entries behind a context point outside the cache on either side. Every partial is
judged for itself against its own tokens; places of no partial must stay as they were. Contexts end
in every part of a tile and of a page, and rows share parts. Not here: tables that name a page
twice, which reading cannot notice.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import Case, CaseGroup, Launch, Trial, poisoned
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
from k3decode.tolerance import Judgement, judge_bitwise, judge_close

__all__ = ["CASES"]

_DIMS = K3Dims()
_TP8, _TP16 = (_DIMS.num_attention_heads // ranks for ranks in (8, 16))
_SHARE_DTYPES = {"bf16": torch.bfloat16, "e4m3": torch.float16}
_KIBI = 1024


@dataclass(frozen=True)
class _Shape:
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

    @property
    def config(self) -> MlaDecodeConfig:
        return config_for(_DIMS, self.cache_format)

    @property
    def visible(self) -> list[int]:
        return visible_tokens(self.lengths, self.tokens_per_request)


@dataclass(frozen=True)
class _Inputs:
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


def _inputs(shape: _Shape, device: torch.device) -> _Inputs:
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
    return _Inputs(
        query=stored[:, :width].unflatten(1, (shape.heads, config.width)),
        cache=PagedCache(
            pages=pages,
            table=table,
            lengths=torch.tensor(shape.lengths, dtype=torch.int32, device=device),
            tokens_per_request=shape.tokens_per_request,
        ),
        partials=_partials(shape, rows, device),
    )


def _partials(shape: _Shape, rows: int, device: torch.device) -> Partials:
    if shape.parts is None and device.type == "cuda":
        made = make_partials(shape.config, rows, shape.heads, device, shape.tokens_per_request)
        count = made.lse.shape[0]
    else:
        together = split_rule(shape.config, device).rows_together(shape.tokens_per_request)
        count = partial_count(rows, shape.parts or 1, together)
    fp32 = torch.float32
    return Partials(
        latents=poisoned(count, shape.heads, shape.config.latent, dtype=fp32, device=device),
        lse=poisoned(count, shape.heads, dtype=fp32, device=device),
    )


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    inputs = _inputs(shape, device)
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


def _expected(shape: _Shape, inputs: _Inputs, piece: Piece) -> tuple[Attended, Attended]:
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


def _judge(shape: _Shape, inputs: _Inputs, written: list[Piece]) -> tuple[Judgement, ...]:
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


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _corner(cache_format: Literal["bf16", "e4m3"]) -> list[Case]:
    shape = partial(_Shape, cache_format=cache_format)
    shapes = {
        "one_token": shape((1,)),
        "one_page": shape((64,), layout=PageLayout(64, 32)),
        "one_page_of_16": shape((16,), layout=PageLayout(16), heads=_TP16),
        "empty": shape((0, 0)),
        "empty_between": shape((0, 40, 0, 0, 9, 0), heads=_TP16),
        "ragged": shape((1, 65, 200, 31, 16, 130, 33), parts=3),
        "more_parts_than_tiles": shape((70, 90), parts=40),
        "many_rows_in_a_part": shape((5,) * 11, parts=1, heads=1),
        "padded_rows": shape((50, 20), row_padding=48, heads=5),
        "page_stride": shape((100, 70), layout=PageLayout(32, 160)),
        "page_of_48": shape((100, 47, 49), layout=PageLayout(48)),
        "page_of_256": shape((300, 255), layout=PageLayout(256, 16)),
        "two_head_blocks": shape((90, 33), heads=17, parts=2),
        "verify_q2": shape((90, 33), tokens_per_request=2),
        "verify_q3": shape((2, 60, 1), tokens_per_request=3, heads=_TP16),
        "verify_q8": shape((700, 9, 0, 33), tokens_per_request=8, parts=7),
        "verify_q8_padded_rows": shape((64, 7), tokens_per_request=8, heads=5, row_padding=48),
        "verify_ragged": shape(
            (1, 65, 200, 31, 16, 130, 33), parts=5, tokens_per_request=4, heads=_TP16
        ),
        "one_token_decides": shape((120, 64), query_factor=30.0),
        "equal_scores": shape((120, 64), query_factor=0.0),
    }
    if cache_format == "e4m3":
        shapes["scales"] = shape((90, 33), scales=CacheScales(query=0.25, cache=1.5))
    return [_case(f"{cache_format}_{name}", "corner", s) for name, s in shapes.items()]


def _production(cache_format: Literal["bf16", "e4m3"]) -> list[Case]:
    found = []
    tp8 = ((1, 1), (1, 32), (1, 256), (8, 1), (8, 32), (8, 256), (64, 1), (64, 32))
    tp16 = ((1, 32), (8, 32), (64, 1))
    for ranks, heads, sizes in ((8, _TP8, tp8), (16, _TP16, tp16)):
        shape = partial(_Shape, cache_format=cache_format, heads=heads, parts=None)
        for rows, kibi in sizes:
            name = f"{cache_format}_tp{ranks}_{kibi}k_m{rows}"
            found.append(_case(name, "production", shape((kibi * _KIBI,) * rows)))
    shape = partial(_Shape, cache_format=cache_format, parts=None)
    ragged = tuple(17 + (977 * i) % 9000 for i in range(33))
    found.append(_case(f"{cache_format}_tp8_ragged_m33", "production", shape(ragged)))
    found.append(_case(f"{cache_format}_tp8_1m_m1", "production", shape((_KIBI * _KIBI,))))
    whole = shape((32 * _KIBI,) * 2, heads=_DIMS.num_attention_heads)
    found.append(_case(f"{cache_format}_all_heads_32k_m2", "production", whole))
    for q, requests, kibi in ((2, 8, 8), (4, 4, 8), (8, 1, 32), (8, 8, 8)):
        name = f"{cache_format}_tp8_{kibi}k_q{q}_m{q * requests}"
        verify = shape((kibi * _KIBI,) * requests, tokens_per_request=q)
        found.append(_case(name, "production", verify))
    return found


def _rows(rows: int) -> Case:
    cache_format: Literal["bf16", "e4m3"] = "bf16" if rows % 2 else "e4m3"
    lengths = tuple((37 * i + rows) % 300 for i in range(rows))
    return _case(f"rows_m{rows}", "rows", _Shape(lengths, cache_format, parts=None))


CASES = (
    _case("bf16_m3", "smoke", _Shape((130, 17, 64), "bf16")),
    _case("e4m3_m3", "smoke", _Shape((130, 17, 64), "e4m3", heads=_TP16)),
    *_corner("bf16"),
    *_corner("e4m3"),
    *_production("bf16"),
    *_production("e4m3"),
    *(_rows(rows) for rows in range(1, MAX_ROWS + 1)),
)
