"""One exchange again and again among simulated ranks, which bring their words late.

Consecutive exchanges bring different words, so that a word that was left over would be seen.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.comm.mailbox import Place
from k3decode.host.inputs import ARCHITECTURES

__all__ = ["Payload", "RepeatedExchange", "compile_late_words", "different_outputs"]

# Up to about 30 us at 1.8 GHz: before, while and after a launch starts.
_PAUSE_CYCLES = 54_000
_NOBODY = -1
# Graphs with pauses of their own, and exchanges of each: no multiple of the payloads that are in
# use, so that a replay begins with another one than the last has ended with.
_GRAPHS = 10
_GRAPH_EXCHANGES = 50


@dataclass(frozen=True)
class Payload:
    """What all ranks bring to one exchange, and where the launching one writes what it gets."""

    words: Tensor
    """As they travel, int32 like the place; what this rank itself owns is not brought."""
    launch: Callable[[Place], None]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class RepeatedExchange:
    """One exchange with all that it takes."""

    name: str
    place: Place
    owners: Tensor
    """Rank that brings each word, int32 like the place."""
    payloads: tuple[Payload, ...]

    def once(
        self, payload: Payload, *, absent: int = _NOBODY, place: Place | None = None
    ) -> list[Tensor]:
        """Let the other ranks, but for one, bring their words, and launch; what was written."""
        place = place or self.place
        there = (self.owners != place.rank) & (self.owners != absent)
        place.words.copy_(torch.where(there, payload.words, place.words))
        payload.launch(place)
        if place.words.device.type == "cuda":
            torch.cuda.synchronize()
        return [one.clone() for one in payload.outputs]

    def free(self) -> bool:
        """Whether every word of the place was taken, and nobody has given up."""
        return bool((self.place.words == -1).all()) and int(self.place.error) == 0


def compile_late_words(architecture: str) -> Any:
    """Compile what brings late words, once per process."""
    from k3decode.device.late_words import LateWordsConfig, LateWordsKernel  # noqa: PLC0415
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415

    arguments = placeholders([torch.int32] * 3 + [torch.int64], 0, 2)
    return compile_kernel(LateWordsKernel(LateWordsConfig()), arguments, architecture)


def different_outputs(
    exchange: RepeatedExchange, expected: Sequence[Sequence[Tensor]], *, times: int, seed: int
) -> tuple[int, int]:
    """Exchange many times on a GPU; returns how many exchanges gave other bits, and of how many.

    Graphs of some exchanges are replayed. In each exchange every rank is late by a time of its own,
    drawn anew for every replay, and this rank by one that is drawn when the graph is made.

    Args:
        exchange: what to do.
        expected: outputs of each payload.
        times: exchanges, rounded up to whole replays.
        seed: of the pauses.
    """
    device = exchange.place.words.device
    drawn = random.Random(seed)  # noqa: S311
    pauses = torch.zeros(_GRAPH_EXCHANGES, exchange.place.ranks, dtype=torch.int64, device=device)
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    own = exchange.owners == exchange.place.rank
    bringers = exchange.owners.masked_fill(own, _NOBODY)
    late = _Late(bringers, pauses)
    graphs = [_graph(exchange, expected, drawn, late, wrong) for _ in range(_GRAPHS)]
    wrong.zero_()
    generator = torch.Generator(device).manual_seed(seed)
    replays = -(-times // _GRAPH_EXCHANGES)
    for replay in range(replays):
        pauses.random_(0, _PAUSE_CYCLES, generator=generator)
        graphs[replay % _GRAPHS].replay()
    torch.cuda.synchronize()
    return int(wrong), replays * _GRAPH_EXCHANGES


def _graph(
    exchange: RepeatedExchange,
    expected: Sequence[Sequence[Tensor]],
    drawn: random.Random,
    late: "_Late",
    wrong: Tensor,
) -> torch.cuda.CUDAGraph:
    """Exchanges of each payload in turn; `wrong` counts those that gave other bits."""
    graph = torch.cuda.CUDAGraph()
    # What is waited for must find room before the waiting kernel does.
    side = torch.cuda.Stream(priority=-1)
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        for i in range(_GRAPH_EXCHANGES):
            turn = i % len(exchange.payloads)
            payload = exchange.payloads[turn]
            side.wait_stream(main)
            with torch.cuda.stream(side):
                _bring_late(exchange.place, payload, late, i)
            torch.cuda._sleep(drawn.randint(1, _PAUSE_CYCLES))
            payload.launch(exchange.place)
            main.wait_stream(side)
            wrong += _differ(payload.outputs, expected[turn])
    return graph


@dataclass(frozen=True)
class _Late:
    """How the words of peers come late."""

    bringers: Tensor
    """Rank that brings each word, int32 like the place; -1 where this rank does."""
    pauses: Tensor
    """Cycles, int64 [exchanges of a graph, ranks]."""


def _bring_late(place: Place, payload: Payload, late: _Late, exchange: int) -> None:
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    tensors = (payload.words, late.bringers, place.words, late.pauses[exchange])
    _late_words()(
        *(device_pointer(one) for one in tensors),
        place.words.numel(),
        place.ranks,
        current_stream(),
    )


@cache
def _late_words() -> Any:
    return compile_late_words(ARCHITECTURES[torch.cuda.get_device_capability()])


def _differ(found: Sequence[Tensor], expected: Sequence[Tensor]) -> Tensor:
    """Whether any bit of any output is another one."""
    pairs = zip(found, expected, strict=True)
    return torch.stack([(_bits(one) != _bits(other)).any() for one, other in pairs]).any()


def _bits(rows: Tensor) -> Tensor:
    return rows.view(torch.int16 if rows.element_size() == 2 else torch.int32)  # noqa: PLR2004
