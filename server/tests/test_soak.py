"""A seeded share of the load and the faults; `make soak` runs all of it."""

from pathlib import Path

from k3server_testing.soak.kills import run_kills
from k3server_testing.soak.pages import run_pages
from k3server_testing.soak.uploads import run_uploads


def test_uploads_at_once_lose_none_and_keep_no_half(tmp_path: Path) -> None:
    found = run_uploads(tmp_path, uploads=6, cut=2, size_bytes=3 << 20, seed=1)
    assert found.statuses == {"201": 6}
    assert (found.stored, found.half_stored, found.leftovers, found.sent_again) == (6, 0, 0, 2)
    assert found.peak_memory_bytes < 150_000_000


def test_kill_at_random_moments_loses_nothing_acknowledged(tmp_path: Path) -> None:
    found = run_kills(tmp_path, kills=2, seed=1)
    assert (found.kills, found.acknowledged_after) == (2, 2)
    assert (found.lost, found.damaged, found.refused) == (0, 0, 0)


def test_pages_answer_with_a_thousand_submissions(tmp_path: Path) -> None:
    found = run_pages(tmp_path, count=1000, requests=20, seed=1)
    assert set(found.p99_ms) == {"front", "older", "pull", "compare", "submission", "search"}
    # Generous: machines of CI are shared. The number of `make soak` is the one that counts.
    assert max(found.p50_ms.values()) < 500
