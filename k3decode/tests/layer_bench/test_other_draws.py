"""Other choices of experts come in place of the drawn ones, in all graphs, and go again."""

import torch
from torch import Tensor

from k3decode.layer_bench.draws import drawn_experts
from k3decode.layer_bench.other_draws import OTHER_DRAWS, in_place, other_draws
from k3decode.layer_bench.sides import StockChild

LAYERS, ROWS, TOP_K, EXPERTS = 3, 4, 2, 16
DRAWN = drawn_experts("uniform", (LAYERS, ROWS, TOP_K), EXPERTS, 0)[0]


class _Engine(StockChild):
    """An engine that keeps what it is told."""

    def __init__(self, recorded: dict[int, list[list[int]]] | None = None) -> None:
        self._recorded = recorded
        self.told: list[Tensor] = []

    def own_choice(self) -> dict[int, list[list[int]]] | None:
        return self._recorded

    def draw(self, experts: object) -> None:
        self.told.append(torch.tensor(experts, dtype=torch.int32))


def test_all_graphs_take_other_choices_and_the_drawn_ones_again() -> None:
    ours, engines = DRAWN.clone(), [_Engine(), _Engine()]
    chosen = torch.full((LAYERS, 2, TOP_K), 7, dtype=torch.int32)
    with in_place(chosen, ours, engines):
        assert torch.equal(ours[:, :2], chosen)
        assert torch.equal(ours[:, 2:], DRAWN[:, 2:])
    assert torch.equal(ours, DRAWN)
    for engine in engines:
        before, after = engine.told
        assert torch.equal(before, chosen)
        assert torch.equal(after, DRAWN[:, :2])


def test_what_routers_chose_is_of_their_layers_and_the_others_keep_the_draw() -> None:
    recorded = {1: [[1, 2], [3, 4]], 2: [[5, 6], [7, 8]]}
    found = dict(other_draws(OTHER_DRAWS, DRAWN, 2, EXPERTS, 5, _Engine(recorded)))
    assert found["recorded"][1:].tolist() == list(recorded.values())
    assert torch.equal(found["recorded"][0], DRAWN[0, :2])
    again = drawn_experts("skewed", (LAYERS, 2, TOP_K), EXPERTS, 5)[0]
    assert torch.equal(found["skewed"], again)
    assert not torch.equal(found["skewed"], DRAWN[:, :2])


def test_where_nothing_was_recorded_there_is_no_such_draw() -> None:
    found = dict(other_draws(OTHER_DRAWS, DRAWN, 2, EXPERTS, 5, _Engine()))
    assert list(found) == ["skewed"]
