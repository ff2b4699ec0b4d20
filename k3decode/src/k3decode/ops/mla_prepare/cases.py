"""Cases of a step's preparation of MLA.

Cache pages are wider than dense; every row of the cache that no slot names, the bytes between
pages, the gate behind the used columns and the columns between rows hold NaN. The shared columns
are judged bit by bit, the normalised ones by the rounding to BF16, and with E4M3 by the codes that
this rounding allows. Not here: two rows with one slot, which no scheduler makes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.formats import pack_e4m3
from k3decode.host.inputs import MAX_ROWS
from k3decode.op import SERVED_ROWS, Case, CaseGroup, Launch, Trial, poisoned
from k3decode.ops.mla.case_inputs import DENSE_PAGES, PageLayout, trapped_pages
from k3decode.ops.mla_prepare.config import MlaPrepareConfig
from k3decode.ops.mla_prepare.cost import mla_prepare_cost
from k3decode.ops.mla_prepare.launch import config_for
from k3decode.ops.mla_prepare.reference import prepare_rows
from k3decode.recording import RecordedCall, RecordingError
from k3decode.tolerance import Judgement, judge_bitwise, judge_close, judge_e4m3

__all__ = ["CASES", "replay"]

_DIMS = K3Dims()
_CPU = torch.device("cpu")
# Columns of the gate behind the used ones, at eight ranks.
_GATE = _DIMS.num_attention_heads // 8 * _DIMS.v_head_dim


@dataclass(frozen=True)
class _Inputs:
    """Everything on one device; whole allocations behind the views."""

    projection: Tensor
    query_norm: Tensor
    latent_norm: Tensor
    slots: Tensor
    query: Tensor
    pages: Tensor

    def copied_to(self, device: torch.device) -> "_Inputs":
        return _Inputs(**{name: t.to(device, copy=True) for name, t in vars(self).items()})


@dataclass(frozen=True)
class _Shape:
    rows: int
    cache_format: Literal["bf16", "e4m3"]
    layout: PageLayout = DENSE_PAGES
    row_padding: int = 0
    null_rows: tuple[int, ...] = ()
    """Rows of slot -1."""
    cache_scale: float = 1.0
    alter: Callable[[Tensor], None] | None = None
    """Overwrites parts of the used columns of the projection."""

    @property
    def config(self) -> MlaPrepareConfig:
        return config_for(_DIMS, self.cache_format)

    @property
    def stored(self) -> list[int]:
        return [row for row in range(self.rows) if row not in self.null_rows]


def _inputs(shape: _Shape) -> _Inputs:
    config = shape.config
    generator = torch.Generator().manual_seed(shape.rows)
    used = config.used_width
    bf16 = torch.bfloat16
    width = used + _GATE + shape.row_padding
    projection = poisoned(shape.rows, width, dtype=bf16, device=_CPU)
    drawn = 2 * torch.randn(shape.rows, used, generator=generator)
    projection[:, :used] = drawn.to(bf16)
    if shape.alter is not None:
        shape.alter(projection[:, :used])
    count = 3 + shape.rows // shape.layout.page_tokens
    places = torch.randperm(count * shape.layout.page_tokens, generator=generator)
    slots = places[: shape.rows].clone()
    slots[list(shape.null_rows)] = -1

    def norm(width: int) -> Tensor:
        return (1 + torch.randn(width, generator=generator) / 4).to(bf16)

    return _Inputs(
        projection=projection,
        query_norm=norm(config.query_rank),
        latent_norm=norm(config.latent),
        slots=slots,
        query=poisoned(
            shape.rows + 1, config.query_rank + shape.row_padding, dtype=bf16, device=_CPU
        ),
        pages=trapped_pages(count, shape.layout, config.row, shape.cache_format, _CPU),
    )


def _page_view(pages: Tensor, shape: _Shape) -> Tensor:
    tokens, row = shape.layout.page_tokens, shape.config.row
    return pages[:, : tokens * row].unflatten(1, (tokens, row))


def _rows_of(pages: Tensor, shape: _Shape, slots: Tensor) -> Tensor:
    """Rows of the slots, gathered."""
    tokens = shape.layout.page_tokens
    return _page_view(pages, shape)[slots // tokens, slots % tokens]


def _prepare(shape: _Shape, launch: Launch, device: torch.device) -> Trial:
    return _trial(shape, _inputs(shape), launch, device)


def replay(call: RecordedCall, launch: Launch, device: torch.device) -> Trial:
    """Make the trial of a recorded launch.

    Raises:
        RecordingError: the recording lacks an argument, or is of other widths than K3's.
    """
    projection, slots, pages = (call.tensor(name) for name in ("projection", "slots", "pages"))
    shape = _Shape(
        rows=projection.shape[0],
        cache_format="bf16" if pages.dtype == torch.bfloat16 else "e4m3",
        layout=PageLayout(pages.shape[1]),
        null_rows=tuple((slots < 0).nonzero()[:, 0].tolist()),
        cache_scale=call.number("cache_scale"),
    )
    config = shape.config
    norms = {name: call.tensor(name) for name in ("query_norm", "latent_norm")}
    found = (norms["query_norm"].shape[0], norms["latent_norm"].shape[0], pages.shape[2])
    if found != (config.query_rank, config.latent, config.row):
        raise RecordingError(
            f"{call.op}, {call.name}: expected norms of {config.query_rank} and {config.latent} "
            f"and cache rows of {config.row} columns, found {found}"
        )
    recorded = replace(
        _inputs(shape), projection=projection, slots=slots, pages=pages.flatten(1), **norms
    )
    return _trial(shape, recorded, launch, device)


def _trial(shape: _Shape, before: _Inputs, launch: Launch, device: torch.device) -> Trial:
    config = shape.config
    used = before.copied_to(device)

    def run() -> None:
        launch(
            used.projection,
            used.query_norm,
            used.latent_norm,
            used.slots,
            used.query[: shape.rows, : config.query_rank],
            _page_view(used.pages, shape),
            config=config,
            cache_scale=shape.cache_scale,
        )

    return Trial(
        run=run,
        judge=lambda: _judge(shape, before, used),
        cost=mla_prepare_cost(config, shape.rows, stored_rows=len(shape.stored)),
    )


def _judge(shape: _Shape, before: _Inputs, used: _Inputs) -> tuple[Judgement, ...]:
    config, slots = shape.config, before.slots[shape.stored]
    exact, rounded = (
        prepare_rows(
            before.projection.to(dtype),
            before.query_norm.to(dtype),
            before.latent_norm.to(dtype),
            config.shared,
            config.norm_eps,
        )
        for dtype in (torch.float64, torch.float32)
    )
    query, pages = used.query.cpu(), used.pages.cpu()
    around_query, around_pages = query.clone(), pages.clone()
    around_query[: shape.rows, : config.query_rank] = torch.nan
    tokens = shape.layout.page_tokens
    _page_view(around_pages, shape)[slots // tokens, slots % tokens] = _rows_of(
        before.pages, shape, slots
    )
    stored = _rows_of(pages, shape, slots)
    latents = exact.row[shape.stored, : config.latent]
    same_dtype = rounded.row[shape.stored, : config.latent].to(torch.bfloat16)
    shared = before.projection[shape.stored, config.query_rank + config.latent :][
        :, : config.shared
    ]
    if shape.cache_format == "bf16":
        judged = judge_close(
            "latents", stored[:, : config.latent], reference=latents, same_dtype=same_dtype
        )
    else:
        shared = pack_e4m3(shared, shape.cache_scale)
        judged = judge_e4m3(
            "latents",
            stored[:, : config.latent],
            reference=latents,
            same_dtype=same_dtype,
            scale=shape.cache_scale,
        )
    return (
        judge_close(
            "query",
            query[: shape.rows, : config.query_rank],
            reference=exact.query,
            same_dtype=rounded.query.to(torch.bfloat16),
        ),
        judged,
        judge_bitwise("shared columns", stored[:, config.latent :], shared),
        judge_bitwise("other queries", around_query, before.query),
        judge_bitwise("other cache rows", around_pages, before.pages),
    )


def _zeros(used: Tensor) -> None:
    used[0] = 0.0
    used[1] = -0.0


def _small(used: Tensor) -> None:
    # The mean square is far below the norm's epsilon.
    used[0] *= 2.0**-20
    used[1, : used.shape[1] // 2] = 2.0**-130


def _large_shared(used: Tensor) -> None:
    columns = _DIMS.qk_rope_head_dim
    used[:, -columns:] = torch.linspace(-2000.0, 2000.0, columns).to(used.dtype)
    used[0, -1] = torch.inf
    used[0, -2] = -torch.inf


def _case(name: str, group: CaseGroup, shape: _Shape) -> Case:
    return Case(name=name, group=group, prepare=partial(_prepare, shape))


def _cases() -> tuple[Case, ...]:
    wide = PageLayout(64, 32)
    cases = []
    formats: tuple[Literal["bf16", "e4m3"], ...] = ("bf16", "e4m3")
    for name in formats:
        shape = partial(_Shape, cache_format=name)
        cases.append(_case(f"{name}_smoke_m3", "smoke", shape(3)))
        corner = {
            "one_row": shape(1),
            "padded_rows": shape(3, row_padding=40),
            "wide_pages": shape(5, layout=wide),
            "page_of_16": shape(40, layout=PageLayout(16, 16)),
            "page_of_48": shape(3, layout=PageLayout(48)),
            "null_slots": shape(6, layout=wide, null_rows=(0, 2, 5)),
            "null_slots_only": shape(2, null_rows=(0, 1)),
            "zeros": shape(2, alter=_zeros),
            "small": shape(2, alter=_small),
            "large_shared": shape(2, alter=_large_shared),
        }
        if name == "e4m3":
            corner["saturated"] = shape(4, cache_scale=2.0**-9)
            corner["scaled"] = shape(4, cache_scale=0.0371)
        cases += [_case(f"{name}_{key}", "corner", one) for key, one in corner.items()]
        cases += [
            _case(f"{name}_m{rows}", "production", shape(rows, layout=wide)) for rows in SERVED_ROWS
        ]
    for rows in range(1, MAX_ROWS + 1):
        null_rows = (rows // 2,) if rows > 2 else ()  # noqa: PLR2004
        one = _Shape(rows, formats[rows % 2], layout=wide, null_rows=null_rows)
        cases.append(_case(f"rows_m{rows}", "rows", one))
    return tuple(cases)


CASES = _cases()
