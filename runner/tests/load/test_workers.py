from k3runner.load.frames import Beat
from k3runner.load.workers import is_stalled

LIMIT = 100


def test_b43_all_streams_without_progress_are_a_stall() -> None:
    assert is_stalled([Beat(at_ns=1_000, in_flight=3, progress_ns=800)], LIMIT)


def test_b43_one_process_with_progress_is_no_stall() -> None:
    beats = [Beat(1_000, 3, 800), Beat(1_000, 1, 950)]
    assert not is_stalled(beats, LIMIT)


def test_idle_process_beside_a_stalled_one_does_not_hide_the_stall() -> None:
    assert is_stalled([Beat(1_000, 3, 800), Beat(1_000, 0, 0)], LIMIT)


def test_nothing_in_flight_is_no_stall() -> None:
    assert not is_stalled([Beat(1_000, 0, 0)], LIMIT)
    assert not is_stalled([], LIMIT)


def test_process_that_said_nothing_yet_may_have_progress() -> None:
    assert not is_stalled([Beat(1_000, 3, 800), None], LIMIT)


def test_requests_that_only_connect_yet_are_no_stall() -> None:
    assert not is_stalled([Beat(at_ns=1_000, in_flight=1, progress_ns=0)], LIMIT)
