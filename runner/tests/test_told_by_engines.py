"""What an engine tells that it must not: nowhere in a run folder, at no moment of a run."""

from pathlib import Path

import pytest

from k3bundle.archive import read_archive
from k3bundle.policy import Policy
from k3bundle.verify import verify
from k3runner.errors import EngineError
from k3runner.events import Event
from k3runner.run import run
from k3runner_testing.fake_kernels import FAKE_TOKEN
from k3runner_testing.run_case import CHANGE, bundle_records, fake_config

TELLS = {"tells_a_token": True}


def told(folder: Path) -> list[Path]:
    """Files that hold the token."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in found if FAKE_TOKEN.encode() in path.read_bytes()]


def test_b55_what_an_engine_tells_is_at_no_moment_on_the_disk_as_it_told_it(
    tmp_path: Path,
) -> None:
    seen = []

    def look(event: Event) -> None:
        seen.append((type(event).__name__, told(tmp_path / "runs")))

    fails = {"fault": "http_500", "faulty_from": 4, "faulty_count": 1}
    result = run(fake_config(tmp_path, baseline=TELLS | fails), CHANGE, look)
    assert len(seen) > 100
    assert [one for one in seen if one[1]] == []
    for name in ("logs/boot-0.0.log", "boots.jsonl", "requests.jsonl"):
        assert "<hf-token>" in (result.run_folder / name).read_text("utf-8"), name
    replaced = {rule.name: rule.replaced for rule in bundle_records(result.bundle_path).scrub.rules}
    # Of each boot of the baseline: its log, its configuration, and the request that failed.
    assert replaced["Hugging Face token"] == 6
    assert verify(read_archive(result.bundle_path), Policy()).findings == ()


def test_b55_the_reason_of_an_engine_that_died_is_told_clean(tmp_path: Path) -> None:
    events: list[Event] = []
    with pytest.raises(EngineError) as caught:
        run(fake_config(tmp_path, candidate=TELLS | {"start": "dies"}), CHANGE, events.append)
    assert FAKE_TOKEN not in f"{caught.value} {events}"
    assert "found 'candidate' (login with <hf-token>)" in str(caught.value)
    assert told(tmp_path / "runs") == []
