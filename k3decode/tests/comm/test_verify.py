"""The exchanges alone, with launches in torch: what many exchanges compare, and an absent rank."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from k3decode.comm import exchanges_alone
from k3decode.comm.exchanges_alone import EXCHANGES
from k3decode.comm.mailbox import Place
from k3decode.comm.repeated import Payload, RepeatedExchange
from k3decode.comm.verify import absent_rank, main
from k3decode.dims import K3Dims

# The stand-ins of the ops' own tests, which lie in a folder beside this one.
from ..ops import exchange_launches  # noqa: TID252

CPU = torch.device("cpu")
RANKS, ROWS = 8, 2
MISSING = -1


@pytest.fixture(autouse=True)
def _torch_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("exchange_attn_res", "exchange_latent_norm", "exchange_route"):
        monkeypatch.setattr(exchanges_alone, name, getattr(exchange_launches, name))


def _exchange(name: str) -> RepeatedExchange:
    return EXCHANGES[name](K3Dims(), RANKS, ROWS, CPU)


@pytest.mark.parametrize("name", EXCHANGES)
def test_equal_words_give_equal_bits_and_others_do_not(name: str) -> None:
    exchange = _exchange(name)
    first = [exchange.once(payload) for payload in exchange.payloads]
    again = [exchange.once(payload) for payload in exchange.payloads]
    assert exchange.free()
    for one, two in zip(first, again, strict=True):
        assert all(_same(a, b) for a, b in zip(one, two, strict=True))
    assert not _same(first[0][0], first[1][0])
    # What was sent lies in a peer's memory: the words of this rank and nothing else.
    own = exchange.owners == exchange.place.rank
    for payload, outputs in zip(exchange.payloads, first, strict=True):
        assert torch.equal(outputs[-1][own], payload.words[own])
        assert bool((outputs[-1][~own] == MISSING).all())


@pytest.mark.parametrize("name", EXCHANGES)
def test_one_payload_has_words_that_look_as_if_they_were_missing(name: str) -> None:
    exchange = _exchange(name)
    for seed, payload in enumerate(exchange.payloads):
        assert not bool((payload.words == MISSING).any())
        replaced = (payload.words == 0x7FFF7FFF).flatten()
        assert set(exchange.owners.flatten()[replaced].tolist()) == ({2, 3} if seed % 2 else set())


def _giving_up(
    launch: Callable[[Place], None], out: torch.Tensor, owners: torch.Tensor, *, named: int | None
) -> Callable[[Place], None]:
    """A launch that sets the error word where words are missing, of the rank or of another one."""

    def run(place: Place) -> None:
        missing = (place.words == MISSING) & (owners != place.rank)
        if not bool(missing.any()):
            launch(place)
            return
        rank = int(owners[missing][0]) if named is None else named
        place.error[0] = place.code(3) + (rank << 16)
        out.fill_(torch.nan)

    return run


def _with_launches(exchange: RepeatedExchange, named: int | None = None) -> RepeatedExchange:
    payloads = tuple(
        replace(one, launch=_giving_up(one.launch, one.outputs[0], exchange.owners, named=named))
        for one in exchange.payloads
    )
    return replace(exchange, payloads=payloads)


@pytest.mark.parametrize("name", EXCHANGES)
def test_an_absent_rank_is_named_and_forgotten(name: str) -> None:
    record = absent_rank(_with_launches(_exchange(name)))
    assert record["outcome"] == "passed"
    assert "expected row 0 of rank 5 before the deadline" in record["sentence"]


def test_another_name_or_wrong_bits_afterwards_fail() -> None:
    exchange = _with_launches(_exchange("latent_sum"), named=4)
    assert absent_rank(exchange)["outcome"] == "failed"
    exchange = _with_launches(_exchange("latent_sum"))
    calls: list[int] = []

    def different(payload: Payload) -> Callable[[Place], None]:
        def run(place: Place) -> None:
            payload.launch(place)
            calls.append(1)
            if len(calls) == 3:
                payload.outputs[0][0, 0] += 1

        return run

    payload = replace(exchange.payloads[0], launch=different(exchange.payloads[0]))
    record: dict[str, Any] = absent_rank(replace(exchange, payloads=(payload,)))
    assert (record["outcome"], record["right_after_reset"]) == ("failed", False)


def test_without_a_gpu_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--commit", "x"])
    assert "expected a CUDA device" in capsys.readouterr().err


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    bits = (tensor.contiguous().view(torch.uint8) for tensor in (one, other))
    return bool(torch.equal(*bits))
