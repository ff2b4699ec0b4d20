"""The plain display, line by line, for a whole run."""

import io
from pathlib import Path

from k3bundle.derive import derive
from k3bundle_testing import good_records
from k3runner.display.plain import PlainDisplay
from k3runner.events import (
    BootBecameReady,
    BootEnded,
    BootStarting,
    BootWaiting,
    BundleSealed,
    CellEnded,
    CellProgress,
    CellStarted,
    Event,
    Remark,
    RunFinished,
    RunStarted,
)

EXPECTED = """\
[    0.0 s] running tier smoke on k3-tiny: boots A-B-B-A, 6 cells in each; \
plan abababababab; folder runs/x
[    1.0 s] boot 0 (4 in all): starting the baseline, backend stock
[   12.0 s] boot 0: not ready after 11 s; log: loading ⟨U+001B⟩[31mweights
[   20.0 s] boot 0: ready after 19 s
[   21.0 s] boot 0: greedy-c2: 12 requests
[   32.0 s] boot 0: greedy-c2: 5 requests done, 1 failed
[   34.0 s] boot 0: greedy-c2: done, 12 of 12 requests
[   35.0 s] boot 0: chat: not finished
[   36.0 s] boot 0: crashed: Segmentation fault
[   37.0 s] note: The server offers no prefix cache reset.
[   38.0 s] verdict ✕ FAIL: {sentence}
[   38.0 s]   ✓ isolated  PASS         {isolated}
[   38.0 s]   ✕ bounded   FAIL         {bounded}
[   38.0 s]   ✓ correct   PASS         {correct}
[   38.0 s]   ○ faster    NOT CLAIMED  {faster}
[   39.0 s] sealed runs/x/run.k3b (digest {digest})
"""


def test_plain_display_of_a_run_is_one_line_per_event() -> None:
    records = good_records(structured_output_broken=True)
    verdict = derive(records)
    events: list[tuple[float, Event]] = [
        (0, RunStarted(Path("runs/x"), records.plan, "ab" * 32, resumed=False)),
        (1, BootStarting(0, 4, "baseline", "stock")),
        (2, BootWaiting(0, 1.0, "not shown: too soon")),
        (12, BootWaiting(0, 11.0, "loading \x1b[31mweights")),
        (20, BootBecameReady(0, 19.2)),
        (21, CellStarted(0, "greedy-c2", 12)),
        (22, CellProgress(0, "greedy-c2", 1, 0)),
        (32, CellProgress(0, "greedy-c2", 5, 1)),
        (34, CellEnded(0, "greedy-c2", finished=True, summary="12 of 12 requests")),
        (35, CellEnded(0, "chat", finished=False, summary="")),
        (36, BootEnded(0, "crashed", "Segmentation fault")),
        (37, Remark("The server offers no prefix cache reset.")),
        (38, RunFinished(verdict)),
        (39, BundleSealed(Path("runs/x/run.k3b"), "cd" * 32)),
    ]
    stream, now = io.StringIO(), [0.0]

    with PlainDisplay(stream, lambda: now[0]) as display:
        for at, event in events:
            now[0] = at
            display.show(event)

    sentences = {claim.name: claim.sentence for claim in verdict.claims}
    bare = verdict.sentence.removeprefix("FAIL: ")
    expected = EXPECTED.format(sentence=bare[0].upper() + bare[1:], digest="cd" * 32, **sentences)
    assert stream.getvalue() == expected
