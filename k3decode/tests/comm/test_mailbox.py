"""Mailboxes without a GPU: places, addresses, what is sent, and what an error word says."""

import pytest
import torch

from k3decode.comm.mailbox import ExchangeFailedError, Mailbox, decode_error
from k3decode.comm.reference import gathered, leave, owner_columns, partial_sum, sendable, take
from k3decode.comm.stand_in import StandInPeers
from k3decode.ops.exchange_attn_res.config import ExchangeAttnResConfig
from k3decode.ops.exchange_latent_norm.config import ExchangeLatentNormConfig
from k3decode.ops.exchange_route.config import ExchangeRouteConfig

BF16 = torch.bfloat16


def _mailbox(rank: int = 1, *, slots: int = 3, places: int = 2) -> Mailbox:
    error = torch.zeros(1, dtype=torch.int64)
    return Mailbox.allocate(places=places, slots=slots, rows=4, columns=16, rank=rank, error=error)


def test_a_place_has_the_address_of_the_same_place_everywhere() -> None:
    own, peers = _mailbox(), [_mailbox(0), _mailbox(2, places=1)]
    mailbox = own.connected([peers[0].words, own.words, peers[1].words])
    place = mailbox.place(3, rows=2)
    assert (place.number, place.ranks, place.words.shape) == (3, 3, (3, 2, 8))
    assert place.words.data_ptr() == own.words[1].data_ptr()
    addresses = [peers[0].words[1].data_ptr(), own.words[1].data_ptr(), peers[1].words.data_ptr()]
    assert place.peers.tolist() == addresses
    assert [one.data_ptr() for one in place.outgoing] == addresses


def test_what_is_left_is_taken_once() -> None:
    boxes = [_mailbox(rank) for rank in range(3)]
    places = [box.connected([one.words for one in boxes]).place(0, rows=4) for box in boxes]
    rows = [torch.randn(4, 16).to(BF16) for _ in range(3)]
    for place, mine in zip(places, rows, strict=True):
        leave(place, sendable(mine), slot=place.rank, columns=slice(None))
    for place in places:
        parts = [
            rows[r] if r == place.rank else take(place, slot=r, columns=slice(None)).view(BF16)
            for r in range(3)
        ]
        assert torch.equal(partial_sum(parts), partial_sum(rows))
        assert bool((place.words == -1).all())
        with pytest.raises(RuntimeError, match="found some missing"):
            take(place, slot=(place.rank + 1) % 3, columns=slice(None))


def test_no_word_that_is_sent_looks_as_if_it_had_not_arrived() -> None:
    rows = torch.zeros(2, 16, dtype=BF16)
    rows.view(torch.int16)[0, :6] = -1
    words = sendable(rows)
    assert not bool((words == -1).any())
    found = words.view(BF16)
    assert bool(found[0, :6].isnan().all()) and torch.equal(found[0, 6:], rows[0, 6:])
    # One NaN of a pair is no such word, and travels as it is.
    rows.view(torch.int16)[1, 0] = -1
    assert torch.equal(sendable(rows)[1], rows.view(torch.int32)[1])
    logit = torch.full((1, 4), -1, dtype=torch.int32).view(torch.float32)
    assert bool(sendable(logit).view(torch.float32).isnan().all())


def test_sums_are_taken_in_the_order_of_ranks() -> None:
    parts = [torch.full((1, 8), value).to(BF16) for value in (2.0**20, -(2.0**20), 2.0**-10)]
    assert partial_sum(parts)[0, 0] == 2.0**-10
    assert partial_sum(parts[1:] + parts[:1])[0, 0] == 0.0


def test_columns_of_ranks_make_a_row() -> None:
    row = torch.arange(24).view(1, 24)
    shares = [row[:, owner_columns(24, rank, 3)] for rank in range(3)]
    assert torch.equal(gathered(shares), row)


def test_an_error_names_exchange_rank_and_row() -> None:
    error = torch.zeros(1, dtype=torch.int64)
    decode_error(error)
    place = _mailbox().connected([_mailbox(r).words for r in range(3)]).place(29, rows=4)
    error[0] = place.code(3) + (2 << 16) + 5
    with pytest.raises(ExchangeFailedError, match="latent sum 29: expected row 5 of rank 2"):
        decode_error(error)


def test_a_reset_mailbox_has_forgotten_all() -> None:
    mailbox = _mailbox()
    mailbox.words.fill_(3)
    mailbox.error.fill_(7)
    mailbox.reset()
    assert bool((mailbox.words == -1).all()) and int(mailbox.error) == 0


def test_columns_that_do_not_travel_four_words_at_a_time_are_refused() -> None:
    with pytest.raises(ValueError, match="columns in a multiple of 8, found 12"):
        Mailbox.allocate(
            places=1, slots=1, rows=1, columns=12, rank=0, error=torch.zeros(1, dtype=torch.int64)
        )


def test_stand_ins_bring_the_same_rows_to_each_place() -> None:
    mailbox = _mailbox(places=4)
    content = torch.randn(3, 4, 16).to(BF16)
    peers = StandInPeers(mailbox, 3, content)
    peers.bring(range(1, 3), rows=2)
    words = mailbox.words
    for place in (1, 2):
        assert torch.equal(words[place, :, :2], content.view(torch.int32)[:, :2])
    assert bool((words[[0, 3]] == -1).all()) and bool((words[:, :, 2:] == -1).all())
    peers.bring(range(0), rows=2)
    assert len({one.data_ptr() for one in peers.mailbox.outgoing}) == 3


def test_configs_refuse_ranks_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="2 to 16 ranks, found 17"):
        _attn_res_config(ranks=17)
    with pytest.raises(ValueError, match="a variant without one"):
        _attn_res_config(has_pending=False)
    with pytest.raises(ValueError, match="ranks that divide 896 vectors, found 3"):
        _attn_res_config(ranks=3)
    with pytest.raises(ValueError, match="2 to 16 ranks, found 1"):
        ExchangeLatentNormConfig(width=3584, eps=1e-5, ranks=1)
    with pytest.raises(ValueError, match="2 to 16 ranks, found 32"):
        _route_config(ranks=32, parts=(512,))
    with pytest.raises(ValueError, match="multiple of 128, found 960"):
        _route_config(num_experts=960, parts=(512,))
    with pytest.raises(ValueError, match="896 experts on 3 ranks"):
        _route_config(ranks=3, parts=(24,))
    with pytest.raises(ValueError, match="8 ranks share evenly"):
        _route_config(parts=(100,))


def _attn_res_config(*, ranks: int = 8, has_pending: bool = True) -> ExchangeAttnResConfig:
    return ExchangeAttnResConfig(
        hidden_size=7168,
        blocks=1,
        has_pending=has_pending,
        write_block=None,
        reset=False,
        output_norm=True,
        eps=1e-5,
        ranks=ranks,
    )


def _route_config(
    *, parts: tuple[int, ...], num_experts: int = 896, ranks: int = 8
) -> ExchangeRouteConfig:
    return ExchangeRouteConfig(
        num_experts=num_experts,
        experts_per_token=16,
        scaling_factor=1.0,
        ranks=ranks,
        parts=parts,
    )
