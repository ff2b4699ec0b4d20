"""The folded parts of the Markdown report: ratios, rates, coverage, isolation, machine. Pure."""

from k3runner.report.isolation import AuditPlace, AuditView, SeparationRow
from k3runner.report.kernels import KernelsView
from k3runner.report.machine import MachineChart, MachineView
from k3runner.report.markdown_table import escape_markdown, markdown_table
from k3runner.report.rates import RateChart
from k3runner.report.view import CoverageBar, RatioRow, ReportView
from k3runner.status_mark import mark_of
from k3runner.wording import count_text, digits, effect, percent, plural

__all__ = ["measured_parts"]

_MOST_PLACES = 12


def measured_parts(view: ReportView) -> tuple[tuple[str, list[str]], ...]:
    """Title and lines of every part; one without lines has nothing to say."""
    return (
        ("Throughput, candidate over baseline", _ratios(view.ratios)),
        ("Throughput against interactivity", _rates(view.rates)),
        ("Which path served the decode steps", _coverage(view.coverage)),
        ("Kernels: cases by op", _ops(view.kernels)),
        ("Kernels: times", _times(view.kernels)),
        ("Isolation: what the change touches", _audit(view.audit)),
        ("Separation: who could touch the referee", _separation(view.separation)),
        ("The machine", _machine(view.machine)),
    )


def _ratios(rows: tuple[RatioRow, ...]) -> list[str]:
    if not rows:
        return []
    return markdown_table(
        ("Cell", "Ratio", "Bounds", "Asked", "Could find", "Result"),
        [_ratio(row) for row in rows],
    )


def _ratio(row: RatioRow) -> tuple[str, ...]:
    one, mark = row.interval, mark_of(row.status)
    bounded = one.lower is not None and one.upper is not None
    found = one.minimum_detectable_effect
    return (
        f"`{row.cell_id}`",
        f"{one.ratio:.3f}",
        f"{one.lower:.3f} to {one.upper:.3f}" if bounded else "none",
        escape_markdown(row.asked),
        "nothing" if found is None else effect(found),
        f"{mark.glyph} {mark.word}",
    )


def _rates(charts: tuple[RateChart, ...]) -> list[str]:
    rows = []
    for chart in charts:
        for line in chart.lines:
            for point in line.points:
                throughput = digits(point.throughput_tokens_per_s)
                rows.append(
                    (
                        f"`{point.cell_id}`",
                        line.arm,
                        str(point.concurrency),
                        digits(point.user_tokens_per_s),
                        throughput if chart.per_gpu else f"{throughput} in all",
                    )
                )
    if not rows:
        return []
    head = ("Cell", "Arm", "In flight", "tokens/s/user", "tokens/s for each GPU")
    return markdown_table(head, rows)


def _coverage(bars: tuple[CoverageBar, ...]) -> list[str]:
    rows = []
    for bar in bars:
        share = bar.expected_steps / bar.decode_steps if bar.decode_steps else None
        said = "not reported" if not bar.available else percent(share)
        steps = f"{count_text(bar.expected_steps)} of {count_text(bar.decode_steps)}"
        path = escape_markdown(bar.expected_path)
        rows.append((f"`{bar.cell_id}`", bar.arm, path, said, steps))
    return markdown_table(("Cell", "Arm", "Path", "Share", "Steps"), rows) if rows else []


def _ops(kernels: KernelsView) -> list[str]:
    rows = [
        (
            f"`{row.op}`",
            f"{count_text(row.passed)} of {count_text(row.total)}",
            row.worst,
            escape_markdown(row.problem),
        )
        for row in kernels.ops
    ]
    head = ("Op", "Cases passed", "Largest error, of what is allowed", "First problem")
    return markdown_table(head, rows) if rows else []


def _times(kernels: KernelsView) -> list[str]:
    rows = [
        (
            f"`{row.op}`",
            escape_markdown(row.case),
            f"{digits(row.latency_us)} us",
            row.spread,
            f"{digits(row.bandwidth_gb_per_s)} GB/s",
            percent(row.sol_fraction),
            row.read_ratio,
        )
        for row in kernels.timings
    ]
    head = ("Op", "Case", "Median", "Spread", "Bandwidth", "Speed of light", "Beside a plain read")
    doubt = f"These times count for nothing: {escape_markdown(kernels.doubt)}"
    return [*([doubt, ""] if kernels.doubt else []), *markdown_table(head, rows)] if rows else []


def _audit(audit: AuditView | None) -> list[str]:
    if audit is None:
        return ["The bundle holds no audit of the change."]
    rows = [
        (
            escape_markdown(row.words),
            count_text(len(row.files)),
            f"+{count_text(row.added_lines)} -{count_text(row.removed_lines)}",
        )
        for row in audit.classes
    ]
    lines = [
        f"By the policy {escape_markdown(audit.policy)}, `{audit.base_sha[:12]}` to "
        f"`{audit.head_sha[:12]}`. The audit names places and decides nothing.",
        "",
        *markdown_table(("Used by", "Files", "Lines"), rows),
    ]
    for title, places in (
        ("Selects a path", audit.selections),
        ("Writes state", audit.writes),
        ("Returns to stock", audit.returns),
    ):
        lines += ["", f"{title}: {plural(len(places), 'place')}.", *_places(places)]
    return lines


def _places(places: tuple[AuditPlace, ...]) -> list[str]:
    lines = [
        f"- {escape_markdown(one.where)}{' (shared)' if one.shared else ''}: "
        f"{escape_markdown(one.what)}"
        for one in places[:_MOST_PLACES]
    ]
    more = len(places) - _MOST_PLACES
    return [*lines, f"- and {more} more"] if more > 0 else lines


def _separation(rows: tuple[SeparationRow, ...]) -> list[str]:
    if not rows:
        return ["Nothing is recorded of the separation."]
    table = [
        (
            row.boot_id,
            row.arm,
            "another" if row.other_user else f"the referee's own. {escape_markdown(row.why_same)}",
            count_text(row.protected_files),
            _alterations(row),
        )
        for row in rows
    ]
    head = ("Boot", "Arm", "Engine's user", "Files watched", "Changed")
    return markdown_table(head, table)


def _alterations(row: SeparationRow) -> str:
    if not row.alterations:
        return "nothing"
    shown = ", ".join(escape_markdown(f"{path} ({kind})") for path, kind in row.alterations[:3])
    return f"{len(row.alterations) + row.more_alterations}: {shown}"


def _machine(machine: MachineView) -> list[str]:
    rows = [_extent(chart) for chart in (*machine.accelerators, *machine.host)]
    head = ("Quantity", "Unit", "Lowest", "Highest", "Limit")
    lines = markdown_table(head, rows) if rows else []
    said = [f"No telemetry of accelerators: {escape_markdown(why)}" for why in machine.absent]
    said += [f"Not read: {escape_markdown(what)}." for what in machine.unread]
    return [*lines, *([""] if lines and said else []), *said]


def _extent(chart: MachineChart) -> tuple[str, ...]:
    return (
        chart.name,
        chart.unit,
        digits(min(boot.low for boot in chart.boots)),
        digits(max(boot.high for boot in chart.boots)),
        "" if chart.limit is None else digits(chart.limit),
    )
