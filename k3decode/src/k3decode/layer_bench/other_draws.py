"""The same graphs with other choices of experts: skewed ones, and those of the engine's routers.

Choices lie in memory whose addresses are in all graphs, so nothing is captured again. What the
engine's own routers chose for the prompts is a recorded trace of this run: rows of dummy weights
resemble each other, so they choose fewer different experts than a uniform draw.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor

from k3decode.layer_bench.draws import drawn_experts
from k3decode.layer_bench.sides import StockChild

__all__ = ["OTHER_DRAWS", "OtherDraw", "in_place", "other_draws"]

OtherDraw = Literal["skewed", "recorded"]
OTHER_DRAWS: tuple[OtherDraw, ...] = ("skewed", "recorded")
"""Some experts much likelier than others; what the deep engine's routers chose for the prompts."""


def other_draws(  # noqa: PLR0917
    names: Sequence[OtherDraw], drawn: Tensor, rows: int, experts: int, seed: int, deep: StockChild
) -> Iterator[tuple[OtherDraw, Tensor]]:
    """Choices of each name, int32 [layers, rows, k], on the CPU; none where nothing was recorded.

    Args:
        names: of the draws.
        drawn: the choices in place of which they come, [layers, rows or more, k].
        rows: of the batch.
        experts: of a layer.
        seed: of the skewed draw.
        deep: an engine inside a step.
    """
    layers, _, top_k = drawn.shape
    for name in names:
        if name == "skewed":
            yield name, drawn_experts("skewed", (layers, rows, top_k), experts, seed)[0]
        elif (recorded := deep.own_choice()) is not None:
            chosen = drawn[:, :rows].cpu().clone()
            for layer, each in recorded.items():
                chosen[layer] = torch.tensor(each, dtype=torch.int32)
            yield name, chosen


@contextmanager
def in_place(chosen: Tensor, drawn: Tensor, engines: Sequence[StockChild]) -> Iterator[None]:
    """Let all graphs take these choices, and the drawn ones again at the end.

    Args:
        chosen: int32 [layers, rows, k], on the CPU.
        drawn: what our graphs read, overwritten meanwhile.
        engines: which have the same draw.
    """
    rows = chosen.shape[1]
    before = drawn[:, :rows].cpu().clone()
    _let_all_take(chosen, drawn, engines)
    yield
    _let_all_take(before, drawn, engines)


def _let_all_take(chosen: Tensor, drawn: Tensor, engines: Sequence[StockChild]) -> None:
    drawn[:, : chosen.shape[1]].copy_(chosen)
    for engine in engines:
        engine.draw(chosen.tolist())
