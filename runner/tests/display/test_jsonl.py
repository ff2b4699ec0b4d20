"""Every event is one JSON object that a program can read back."""

import io
import json
from pathlib import Path

from k3bundle.derive import derive
from k3bundle.plan import Plan
from k3bundle.verdict import Verdict
from k3bundle_testing import good_records
from k3runner.display.jsonl import JsonlDisplay
from k3runner.events import BootStarting, BundleSealed, RunFinished, RunStarted


def test_jsonl_display_writes_events_that_read_back() -> None:
    records = good_records()
    verdict = derive(records)
    stream, ticks = io.StringIO(), iter([0.0, 10.0, 11.5, 12.0, 13.0, 14.25])

    with JsonlDisplay(stream, lambda: next(ticks)) as display:
        display.show(RunStarted(Path("runs/x"), records.plan, "ab" * 32, resumed=True))
        display.show(BootStarting(1, 4, "candidate", "candidate"))
        display.show(RunFinished(verdict))
        display.show(BundleSealed(Path("runs/x/run.k3b"), "cd" * 32))

    started, boot, finished, sealed = map(json.loads, stream.getvalue().splitlines())
    assert Plan.model_validate_json(json.dumps(started["plan"])) == records.plan
    assert (started["event"], started["resumed"], started["elapsed_s"]) == (
        "run_started",
        True,
        1.5,
    )
    assert boot == {
        "event": "boot_starting",
        "slot": 1,
        "slot_count": 4,
        "arm": "candidate",
        "decode_backend": "candidate",
        "elapsed_s": 2.0,
    }
    assert Verdict.model_validate_json(json.dumps(finished["verdict"])) == verdict
    assert sealed["bundle_path"] == "runs/x/run.k3b"
