"""The check of a layer, with launches that are plain torch: right ones pass, wrong ones do not."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from k3decode.decode import executor as executor_module
from k3decode.decode import layer_check
from k3decode.decode.executor import CapturedStep
from k3decode.decode.layer_check import LayerCheck, Stream
from k3decode.decode.placed_state import kept_tokens, place_state
from k3decode.decode.prepared_launch import PreparedLaunch

from .executor_on_cpu import CPU, DIMS, torch_ops

__all__ = ["torch_ops"]


@dataclass(frozen=True)
class _Launches:
    """A graph that is no graph."""

    launches: Sequence[PreparedLaunch]

    def replay(self) -> None:
        for launch in self.launches:
            launch.run()


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch, torch_ops: None) -> None:
    """Steps without a GPU: a replay calls the launches."""

    def capture(launches: Sequence[PreparedLaunch], beside: object) -> CapturedStep:
        assert beside is None
        found: Any = _Launches(launches)
        return CapturedStep(graph=found, launches=tuple(launches))

    monkeypatch.setattr(executor_module, "capture", capture)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


def _stream(tokens: int) -> Stream:
    return Stream.embedded(DIMS, tokens=tokens, requests=2, seed=3, device=CPU)


@pytest.mark.usefixtures("replayed")
def test_steps_of_drafts_pass_in_each_kind_of_layer() -> None:
    tokens, stream = 2, _stream(6)
    for number in (0, 1, 3):
        check = LayerCheck(DIMS, number, stream, seed=0, tokens=tokens)
        record = check.run()
        assert record["outcome"] == "passed", record["wrong"]
        assert record["tokens"] == tokens and record["steps"] == 3
        stream = check.following
    assert stream.prefix.shape == (6, 2, DIMS.hidden_size)


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.usefixtures("replayed")
def test_a_state_that_is_read_from_a_dropped_token_fails(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = replace(_stream(6), blocks=torch.randn(1, 6, 2, DIMS.hidden_size).bfloat16())
    monkeypatch.setattr(layer_check, "place_state", _misplaced(place_state))
    record = LayerCheck(DIMS, number, stream, seed=0, tokens=3).run()
    assert record["outcome"] == "failed"
    assert "prefix" in record["wrong"]


def _misplaced(place: Any) -> Any:
    def place_and_move(state: Any, number: int, inputs: Any, batch: Any, kept: int) -> None:
        place(state, number, inputs, batch, kept)
        state.accepted.fill_(kept % batch.tokens + 1)
        for pages in state.mla_pages.values():
            pages.zero_()

    return place_and_move


def test_kept_tokens_go_round() -> None:
    assert [kept_tokens(step, 3) for step in range(4)] == [1, 2, 3, 1]
    assert kept_tokens(5, 1) == 1
