import pytest

from k3runner.load.capture import Shot
from k3runner.load.shares import process_count, shares_of


@pytest.mark.parametrize(
    ("streams", "cpus", "count"),
    [(1, 2, 1), (64, 64, 1), (65, 64, 2), (1024, 64, 16), (1024, 8, 2), (65536, 1, 1)],
)
def test_process_count_is_one_per_64_streams_and_leaves_cores_to_the_engine(
    streams: int, cpus: int, count: int
) -> None:
    assert process_count(streams, cpus) == count


def shots(count: int) -> list[Shot]:
    return [Shot(number, b"") for number in range(count)]


@pytest.mark.parametrize("streams", [1, 2, 3, 5, 64])
@pytest.mark.parametrize("processes", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 9, 200])
def test_shares_hold_every_shot_once_and_every_stream_once(
    streams: int, processes: int, count: int
) -> None:
    shares = shares_of(shots(count), streams, processes)
    numbers = [shot.number for share, _ in shares for shot in share]
    assert sorted(numbers) == list(range(count))
    assert sum(lanes for _, lanes in shares) == streams
    assert len(shares) <= processes
    assert all(share and lanes for share, lanes in shares)
    for share, _ in shares:
        assert [shot.number for shot in share] == sorted(shot.number for shot in share)


def test_shares_are_in_proportion_to_streams() -> None:
    shares = shares_of(shots(500), 5, 2)
    assert [(len(share), lanes) for share, lanes in shares] == [(300, 3), (200, 2)]


def test_no_shots_are_one_empty_share() -> None:
    assert shares_of([], 4, 2) == (((), 4),)
