"""Events in words. Pure; shared by the displays."""

from collections.abc import Mapping
from typing import Final

from k3bundle.verdict import Verdict
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
from k3runner.status_mark import mark_of, without_status
from k3runner.visible import one_line, visible
from k3runner.wording import plural, seconds

__all__ = ["ARM_LETTERS", "HOW_ENDED", "bare_sentence", "sentence", "verdict_lines"]

ARM_LETTERS: Final = {"baseline": "A", "candidate": "B"}
"""The letter of each arm in an A-B-B-A order."""

HOW_ENDED: Final[Mapping[str, str]] = {
    "clean": "stopped",
    "killed": "had to be killed",
    "crashed": "crashed",
    "never_ready": "never became ready",
}
"""How an engine process ended, in words."""

_LOG_LINE: Final = 160


def sentence(event: Event) -> str:  # noqa: PLR0911
    """Return an event in words, on one line."""
    match event:
        case RunStarted():
            return _run_started(event)
        case BootStarting():
            return (
                f"boot {event.slot} ({event.slot_count} in all): starting the {event.arm}, "
                f"backend {visible(event.decode_backend)}"
            )
        case BootWaiting():
            line = one_line(event.last_log_line, _LOG_LINE) or "no output yet"
            return f"boot {event.slot}: not ready after {seconds(event.waited_s)}; log: {line}"
        case BootBecameReady():
            return f"boot {event.slot}: ready after {seconds(event.ready_after_s)}"
        case BootEnded():
            return _boot_ended(event)
        case CellStarted() | CellProgress() | CellEnded():
            return _cell(event)
        case Remark():
            return f"note: {visible(event.text)}"
        case RunFinished():
            mark = mark_of(event.verdict.status)
            return f"verdict {mark.glyph} {mark.word}: {bare_sentence(event.verdict)}"
        case BundleSealed():
            return f"sealed {event.bundle_path} (digest {event.bundle_sha256})"


def bare_sentence(verdict: Verdict) -> str:
    """Return the verdict's sentence for a place that shows the status already."""
    return visible(without_status(verdict.sentence, verdict.status))


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return the four claims as aligned lines."""
    lines = []
    for claim in verdict.claims:
        mark = mark_of(claim.status)
        lines.append(f"{mark.glyph} {claim.name:<9} {mark.word:<12} {visible(claim.sentence)}")
    return lines


def _run_started(event: RunStarted) -> str:
    boots = "-".join(ARM_LETTERS[boot.arm] for boot in event.plan.boots)
    verb = "resuming" if event.resumed else "running"
    cells = plural(sum(cell.kind != "skipped" for cell in event.plan.cells), "cell")
    return (
        f"{verb} tier {event.plan.tier} on {visible(event.plan.subject)}: boots {boots}, {cells} "
        f"in each; plan {event.plan_sha256[:12]}; folder {event.run_folder}"
    )


def _boot_ended(event: BootEnded) -> str:
    how = HOW_ENDED.get(event.how, event.how)
    detail = "" if event.how == "clean" or not event.detail else f": {visible(event.detail)}"
    return f"boot {event.slot}: {how}{detail}"


def _cell(event: CellStarted | CellProgress | CellEnded) -> str:
    where = f"boot {event.slot}: {event.cell_id}"
    match event:
        case CellStarted():
            return f"{where}: {plural(event.requests_planned, 'request')}"
        case CellProgress():
            failed = f", {event.requests_failed} failed" if event.requests_failed else ""
            return f"{where}: {plural(event.requests_done, 'request')} done{failed}"
        case CellEnded():
            end = "done" if event.finished else "not finished"
            return f"{where}: {end}{f', {visible(event.summary)}' if event.summary else ''}"
