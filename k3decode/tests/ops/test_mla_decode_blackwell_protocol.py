"""Barriers of Blackwell's attention kernel: nobody waits for ever, nothing is used too early."""

import pytest

from k3decode.dims import K3Dims
from k3decode.ops.mla_decode.launch import blackwell_config, config_for
from k3decode.ops.mla_decode_blackwell.config import BLOCK_COLUMNS

from .blackwell_protocol import Cta, Mistake, ProtocolError

PIECES = ([1], [2], [9], [1, 1, 1, 1], [3, 1, 6, 2])


@pytest.mark.parametrize("columns", BLOCK_COLUMNS)
@pytest.mark.parametrize("cache_format", ["bf16", "e4m3"])
@pytest.mark.parametrize("pieces", PIECES, ids=str)
def test_any_order_of_events_ends_and_reads_what_it_should(
    cache_format: str, columns: int, pieces: list[int]
) -> None:
    config = blackwell_config(config_for(K3Dims(), cache_format), columns)
    for seed in range(25):
        Cta(config, pieces, seed).run()


@pytest.mark.parametrize(
    "mistake",
    [
        "copies do not wait",
        "queries end early",
        "shares do not wait",
        "sums are written at once",
    ],
)
def test_each_wait_is_needed(mistake: Mistake) -> None:
    config = blackwell_config(config_for(K3Dims(), "bf16"), BLOCK_COLUMNS[0])
    with pytest.raises(ProtocolError):
        for seed in range(200):
            Cta(config, [4, 3, 5], seed, mistake).run()


def test_scores_ahead_without_room_for_two_tiles_wait_for_ever() -> None:
    """Why `ahead` asks for room: 96 query rows leave less than two tiles."""

    class Forced(type(blackwell_config(config_for(K3Dims(), "bf16"), 96))):  # type: ignore[misc]
        ahead = True

    with pytest.raises(ProtocolError, match="nobody can go on"):
        Cta(Forced("bf16", 512, 64, 96), [3], 0).run()
