"""What the live display draws, as text, at telling moments of a run."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from k3bundle.derive import derive
from k3bundle_testing import good_records
from k3runner.display.choice import choose_display
from k3runner.display.drawing import draw, draw_verdict
from k3runner.display.jsonl import JsonlDisplay
from k3runner.display.live import LiveDisplay
from k3runner.display.plain import PlainDisplay
from k3runner.display.progress import Progress
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

RECORDS = good_records()
STARTED = RunStarted(Path("runs/x"), RECORDS.plan, "ab" * 32, resumed=False)
FIRST_BOOT: tuple[Event, ...] = (
    STARTED,
    BootStarting(0, 4, "baseline", "stock"),
    BootBecameReady(0, 19.0),
    *(CellEnded(0, cell.cell_id, finished=True, summary="ok") for cell in RECORDS.plan.cells),
    BootEnded(0, "clean", ""),
)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def drawn(events: tuple[Event, ...], *, at: float = 30.0, width: int = 100) -> str:
    progress = Progress(started_at_s=0.0)
    for event in events:
        progress.take(event, 10.0)
    console = Console(file=io.StringIO(), width=width, no_color=True, force_terminal=False)
    with console.capture() as capture:
        console.print(draw(progress, at, width))
        console.print(draw_verdict(progress))
    return capture.get()


def test_draw_shows_boots_in_order_and_the_cells_of_the_current_one() -> None:
    cell = RECORDS.plan.cells[0].cell_id
    text = drawn(
        (
            *FIRST_BOOT,
            BootStarting(1, 4, "candidate", "candidate"),
            BootBecameReady(1, 20.0),
            CellStarted(1, cell, 16),
            CellProgress(1, cell, 9, 2),
        )
    )

    timeline = next(line for line in text.splitlines() if "A baseline" in line)
    assert timeline.split() == ["A", "baseline", "B", "candidate"] * 1 + [
        "B",
        "candidate",
        "A",
        "baseline",
    ]
    assert "✓ 0 s" in text
    assert "cell 1 of 6" in text
    assert "Boot 1  candidate, backend candidate" in text
    assert "9/16, 2 failed" in text
    assert text.count("waiting") == 2


def test_draw_while_starting_shows_the_last_log_line_without_obeying_it() -> None:
    text = drawn(
        (
            STARTED,
            BootStarting(0, 4, "baseline", "stock"),
            BootWaiting(0, 5.0, "loading \x1b[2J \u202eweights [bold]x[/bold]"),
        )
    )

    assert "starting 20 s" in text
    assert "engine: loading ⟨U+001B⟩[2J ⟨U+202E⟩weights [bold]x[/bold]" in text


def test_draw_marks_a_boot_that_crashed_with_more_than_colour() -> None:
    text = drawn(
        (STARTED, BootStarting(0, 4, "baseline", "stock"), BootEnded(0, "crashed", "died"))
    )

    assert "✕ 0 s" in text


def test_draw_on_a_narrow_terminal_lists_boots_below_each_other() -> None:
    lines = drawn(FIRST_BOOT, width=44).splitlines()

    assert sum("A baseline" in line or "B candidate" in line for line in lines) == 4
    assert all(len(line) <= 44 for line in lines)


def test_draw_verdict_shows_status_claims_and_bundle() -> None:
    verdict = derive(RECORDS)
    sealed = BundleSealed(Path("runs/x/run.k3b"), "cd" * 32)
    text = drawn((*FIRST_BOOT, RunFinished(verdict), sealed))

    assert "✓ PASS" in text
    for claim in verdict.claims:
        assert claim.name in text
    assert "NOT CLAIMED" in text
    assert "runs/x/run.k3b" in text
    assert "cd" * 32 in text


def test_live_display_keeps_remarks_and_verdict_on_the_screen() -> None:
    terminal = Terminal()
    with LiveDisplay(terminal, lambda: 5.0) as display:
        for event in (*FIRST_BOOT, Remark("Look [here]."), RunFinished(derive(RECORDS))):
            display.show(event)

    shown = terminal.getvalue()
    assert "note: Look [here]." in shown
    assert "PASS" in shown
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")


def test_live_display_gives_the_cursor_back_after_an_error() -> None:
    terminal = Terminal()
    with pytest.raises(KeyboardInterrupt), LiveDisplay(terminal, lambda: 5.0) as display:
        display.show(STARTED)
        raise KeyboardInterrupt

    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l")


@pytest.mark.parametrize(
    ("events", "plain", "terminal", "term", "kind"),
    [
        (True, False, True, "xterm", JsonlDisplay),
        (False, True, True, "xterm", PlainDisplay),
        (False, False, False, "xterm", PlainDisplay),
        (False, False, True, "dumb", PlainDisplay),
        (False, False, True, "xterm", LiveDisplay),
    ],
)
def test_choose_display_by_flag_and_terminal(
    *,
    events: bool,
    plain: bool,
    terminal: bool,
    term: str,
    kind: type,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", term)
    stderr = Terminal() if terminal else io.StringIO()

    display = choose_display(
        events=events, plain=plain, stdout=io.StringIO(), stderr=stderr, clock=lambda: 0.0
    )

    assert isinstance(display, kind)


def test_live_display_honours_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = Terminal()
    with LiveDisplay(terminal, lambda: 5.0) as display:
        for event in (*FIRST_BOOT, RunFinished(derive(RECORDS))):
            display.show(event)

    assert "\x1b[32m" not in terminal.getvalue()
    assert "\x1b[36m" not in terminal.getvalue()
    assert "✓ PASS" in terminal.getvalue()
