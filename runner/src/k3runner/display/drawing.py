"""Draws the state of a run with rich. Pure: state and time in, renderable out."""

from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from k3runner.display.progress import BootState, CellState, Progress
from k3runner.display.sentences import ARM_LETTERS, bare_sentence
from k3runner.status_mark import Tone, mark_of
from k3runner.visible import one_line, visible
from k3runner.wording import seconds

__all__ = ["draw", "draw_verdict"]

_TONES: Final[dict[Tone, str]] = {
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "odd": "magenta",
    "quiet": "bright_black",
}
_ARMS: Final = {"baseline": "default", "candidate": "cyan"}
_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_NARROWEST_BOOT: Final = 15
_BAR_WIDTH: Final = 24


def draw(progress: Progress, now_s: float, width: int) -> RenderableType:
    """Return the run at one moment: head, boots, cells of the current boot, last log line."""
    if progress.plan is None:
        return Text(f"{_spin(now_s)} preparing", style="dim")
    parts: list[RenderableType] = [_head(progress, now_s), Text(), _boots(progress, now_s, width)]
    boot = _current(progress)
    if boot is not None and progress.verdict is None:
        parts += [Text(), _cells(boot, now_s)]
        if boot.phase == "starting":
            parts += [Text(), _log_line(boot, width)]
    return Padding(Group(*parts), (1, 2, 1, 2))


def draw_verdict(progress: Progress) -> RenderableType:
    """Return the panel with the verdict and the four claims, and where the bundle is."""
    verdict = progress.verdict
    if verdict is None:
        return Text()
    mark = mark_of(verdict.status)
    claims = Table.grid(padding=(0, 2))
    for column in ("mark", "name", "status"):
        claims.add_column(column, no_wrap=True)
    claims.add_column("sentence")
    for claim in verdict.claims:
        shown = mark_of(claim.status)
        style = _TONES[shown.tone]
        claims.add_row(
            Text(shown.glyph, style=style),
            Text(claim.name, style="bold"),
            Text(shown.word, style=style),
            Text(visible(claim.sentence)),
        )
    body: list[RenderableType] = [Text(bare_sentence(verdict), style="bold"), Text(), claims]
    if progress.bundle_path is not None:
        body += [Text(), _labelled("bundle", progress.bundle_path)]
        body += [_labelled("digest", progress.bundle_sha256 or "")]
    return Panel(
        Group(*body),
        title=Text(f" {mark.glyph} {mark.word} ", style=f"bold {_TONES[mark.tone]}"),
        title_align="left",
        border_style=_TONES[mark.tone],
        padding=(1, 2),
    )


def _head(progress: Progress, now_s: float) -> RenderableType:
    head = Table.grid(expand=True)
    head.add_column(ratio=1)
    head.add_column(justify="right", no_wrap=True)
    plan = progress.plan
    title = Text("k3-eval", style="bold")
    if plan is not None:
        title.append(f"  {plan.tier} · {visible(plan.subject)}", style="default")
    if progress.resumed:
        title.append("  resumed", style="yellow")
    head.add_row(title, Text(seconds(now_s - progress.started_at_s)))
    head.add_row(Text(progress.run_folder, style="dim", overflow="fold"), Text())
    return head


def _boots(progress: Progress, now_s: float, width: int) -> RenderableType:
    """Boots as a timeline, left to right; one under the other where the terminal is narrow."""
    room = (width - 4) // max(1, len(progress.boots)) - 2
    if room < _NARROWEST_BOOT:
        rows = Table.grid(padding=(0, 2))
        for boot in progress.boots:
            rows.add_row(_boot_name(boot), _boot_status(boot, now_s))
        return rows
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in progress.boots:
        grid.add_column(width=room, no_wrap=True, overflow="ellipsis")
    grid.add_row(*(_boot_name(boot) for boot in progress.boots))
    grid.add_row(*(_boot_bar(boot, room) for boot in progress.boots))
    grid.add_row(*(_boot_status(boot, now_s) for boot in progress.boots))
    return grid


def _boot_name(boot: BootState) -> Text:
    style = "dim" if boot.phase == "planned" else f"bold {_ARMS[boot.arm]}"
    return Text(f"{ARM_LETTERS[boot.arm]} {boot.arm}", style=style)


def _boot_bar(boot: BootState, width: int) -> RenderableType:
    style = "red" if boot.phase == "broken" else _ARMS[boot.arm]
    return ProgressBar(
        total=max(1, len(boot.cells)),
        completed=boot.cells_done,
        width=width,
        style="bright_black",
        complete_style=style,
        finished_style=style,
    )


def _boot_status(boot: BootState, now_s: float) -> Text:
    since = boot.started_at_s
    if boot.phase == "planned" or since is None:
        return Text("waiting", style="dim")
    if boot.phase == "starting":
        return Text(f"{_spin(now_s)} starting {seconds(now_s - since)}")
    if boot.phase == "measuring":
        return Text(
            f"{_spin(now_s)} cell {min(boot.cells_done + 1, len(boot.cells))} of {len(boot.cells)}"
        )
    took = seconds((boot.ended_at_s or now_s) - since)
    if boot.phase == "broken":
        return Text(f"✕ {took}", style="red")
    return Text(f"✓ {took}", style="green")


def _cells(boot: BootState, now_s: float) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        table.add_column(no_wrap=True, overflow="ellipsis")
    for cell in boot.cells:
        table.add_row(*_cell_row(cell, now_s))
    title = Text(f"Boot {boot.slot}", style="bold")
    title.append(f"  {boot.arm}, backend {visible(boot.backend)}", style="default")
    return Group(title, table)


def _cell_row(cell: CellState, now_s: float) -> tuple[RenderableType, ...]:
    failed = f", {cell.requests_failed} failed" if cell.requests_failed else ""
    if cell.phase == "going":
        bar = ProgressBar(
            total=max(1, cell.requests_planned),
            completed=cell.requests_done,
            width=_BAR_WIDTH,
            style="bright_black",
            complete_style="default",
            finished_style="default",
        )
        count = f"{cell.requests_done}/{cell.requests_planned}{failed}"
        return Text(_spin(now_s)), Text(cell.cell_id), bar, Text(count)
    if cell.phase == "waiting":
        return Text("·", style="dim"), Text(cell.cell_id, style="dim"), Text(), Text()
    glyph, style = ("✓", "green") if cell.phase == "done" else ("✕", "red")
    summary = Text(visible(cell.summary) + failed, style="dim")
    return Text(glyph, style=style), Text(cell.cell_id), summary, Text()


def _log_line(boot: BootState, width: int) -> Text:
    line = one_line(boot.last_log_line, max(20, width - 12)) or "no output yet"
    return Text(f"engine: {line}", style="dim", no_wrap=True, overflow="ellipsis")


def _labelled(label: str, value: str) -> Text:
    return Text.assemble((f"{label}  ", "dim"), (value, "default"), overflow="fold")


def _current(progress: Progress) -> BootState | None:
    return next((boot for boot in progress.boots if boot.slot == progress.current), None)


def _spin(now_s: float) -> str:
    return _SPINNER[int(now_s * 8) % len(_SPINNER)]
