"""A seeded share of the load and the faults; `make soak` runs all of it."""

from pathlib import Path
from typing import Final

import pytest

from k3server_testing.soak.adding import added, slice_start
from k3server_testing.soak.full_disk import run_full_disk
from k3server_testing.soak.kills import run_kills
from k3server_testing.soak.large_bundle import run_large_bundle
from k3server_testing.soak.malformed import run_malformed
from k3server_testing.soak.outages import run_outages
from k3server_testing.soak.pages import run_pages
from k3server_testing.soak.stacks import Loss, StackName
from k3server_testing.soak.uploads import run_uploads

NOTHING: Final = Loss(lost=0, damaged=0, unknown=0)


def test_uploads_at_once_lose_none_and_keep_no_half(tmp_path: Path) -> None:
    found = run_uploads(tmp_path, uploads=6, cut=2, size_bytes=3 << 20, seed=1)
    assert found.statuses == {"201": 6}
    assert (found.stored, found.half_stored, found.leftovers, found.sent_again) == (6, 0, 0, 2)
    assert found.peak_memory_bytes < 150_000_000


@pytest.mark.parametrize("stack", ["embedded", "full"])
def test_kill_at_random_moments_loses_nothing_acknowledged(
    tmp_path: Path, stack: StackName
) -> None:
    found = run_kills(tmp_path, stack=stack, kills=1, seed=1)
    assert (found.kills, found.acknowledged_after, found.refused) == (1, 4, 0)
    assert 1 <= found.intakes <= 4
    assert found.loss == NOTHING
    assert not found.answers.keys() - {"200", "201", "none"}


def test_store_that_goes_away_is_a_problem_and_loses_nothing(tmp_path: Path) -> None:
    found = run_outages(tmp_path, what="store", outages=1, seed=1)
    assert found.acknowledged > 0
    assert (found.refused, found.loss) == (0, NOTHING)
    assert not found.answers.keys() - {"200", "201", "503"}


def test_full_disk_is_a_problem_and_loses_nothing(tmp_path: Path) -> None:
    try:
        found = run_full_disk(
            tmp_path / "data", stack="embedded", rounds=2, most_room_bytes=200_000, seed=1
        )
    except RuntimeError as error:
        # Who may not mount is told; tests of the adapters say what they do on a full disk.
        assert str(error).startswith("Expected to mount a disk")
        return
    assert found.acknowledged_in_little_room + found.acknowledged_later == 2
    assert (found.refused, found.leftovers, found.loss) == (0, 0, NOTHING)
    assert not found.answers.keys() - {"200", "201", "507"}


def test_malformed_bundles_are_all_refused(tmp_path: Path) -> None:
    found = run_malformed(tmp_path, count=1000, sent=2, processes=1, first=100_000)
    assert (found.bundles, found.accepted, found.tracebacks) == (1000, 0, 0)
    assert len(found.kinds) == 7
    assert (found.sent, found.statuses, found.indexed) == (2, {"422": 2}, 0)


def test_pages_answer_with_submissions_in_the_index(tmp_path: Path) -> None:
    found = run_pages(tmp_path, count=300, requests=10, seed=1)
    assert set(found.p99_ms) == {"front", "older", "pull", "compare", "submission", "search"}
    # Generous: machines of CI are shared. The number of `make soak` is the one that counts.
    assert max(found.p50_ms.values()) < 500


def test_large_bundle_is_taken_in_parts_within_the_memory_of_its_content(tmp_path: Path) -> None:
    found = run_large_bundle(tmp_path, mib=20, seed=1)
    assert (found.status, found.archive_bytes >> 20) == (201, 20)
    # The file, its content, and a second copy of the largest file while it is joined.
    assert found.verify_memory_bytes < (120 + 3 * 20) << 20
    assert found.registry_memory_bytes < 150_000_000
    assert 0 < found.speed_ratio < 1


def test_slices_of_one_commit_are_added_up_and_others_are_not() -> None:
    first = {"commit": "a", "kills": 3, "loss": {"lost": 0}, "answers": {"201": 5}, "span_s": 1.0}
    second = {"commit": "a", "kills": 2, "loss": {"lost": 1}, "answers": {"none": 2}, "span_s": 2.0}
    both = added(first, second)
    assert both == {
        **{"commit": "a", "kills": 5, "loss": {"lost": 1}, "answers": {"201": 5, "none": 2}},
        **{"span_s": 2.0, "slices": 2},
    }
    assert added(both, first)["slices"] == 3
    assert (slice_start(both), slice_start({"bundles": 7}), slice_start(None)) == (5, 7, 0)
    with pytest.raises(ValueError, match="a slice of commit a, found one of b"):
        added(first, {**second, "commit": "b"})
