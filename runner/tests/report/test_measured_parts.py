"""Ratios, rates, isolation, separation, machine: from the records, and said when absent."""

import csv
import io
import re
from dataclasses import replace
from functools import cache

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.kernel_record import KernelLine
from k3bundle.separation import Alteration
from k3bundle.verdict import CellSkipped, ServingEvidence
from k3bundle_testing import good_records
from k3bundle_testing.example_kernels import good_kernel_records
from k3bundle_testing.example_plan import SERVING_CELL_ID
from k3runner.report.build import build_view
from k3runner.report.csv_form import COLUMNS, render_csv
from k3runner.report.html import render_html
from k3runner.report.machine import BootExtent, MachineChart
from k3runner.report.machine_plots import extent_chart, rate_chart
from k3runner.report.markdown import render_markdown
from k3runner.report.rates import RateChart, RateLine, RatePoint
from k3runner.report.view import ReportView


@cache
def standard() -> RunRecords:
    return good_records(tier="standard", candidate_speed=1.2)


def view_of(records: RunRecords) -> ReportView:
    return build_view(records, derive(records), None)


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_ratio_of_every_timed_cell_stands_beside_what_it_is_held_against() -> None:
    view = view_of(standard())
    (row,) = view.ratios
    assert (row.cell_id, row.status, row.asked, row.threshold) == (
        SERVING_CELL_ID,
        "PASS",
        "faster",
        1.0,
    )
    assert row.interval.lower is not None
    assert row.interval.lower > 1.1
    assert f"{row.interval.ratio:.3f}" in plain(render_html(view))
    assert f"| `{SERVING_CELL_ID}` | {row.interval.ratio:.3f} |" in render_markdown(view)


def test_ratio_is_only_reported_where_the_tier_claims_no_speed() -> None:
    (row,) = view_of(good_records()).ratios
    assert (row.asked, row.threshold) == ("nothing", None)


def test_rates_are_the_middle_of_each_arm_without_null_pairs() -> None:
    records = standard()
    (chart,) = view_of(records).rates
    evidence = next(
        cell.evidence
        for cell in derive(records).cells
        if not isinstance(cell, CellSkipped) and isinstance(cell.evidence, ServingEvidence)
    )
    compared = sorted(
        boot.tokens_per_s_per_user or 0.0
        for boot in evidence.boots
        if boot.arm == "baseline" and boot.role == "compare"
    )
    assert len(compared) == 4
    baseline, candidate = chart.lines
    assert baseline.points[0].user_tokens_per_s == pytest.approx(sum(compared[1:3]) / 2)
    assert candidate.points[0].user_tokens_per_s > baseline.points[0].user_tokens_per_s


def test_rate_chart_puts_more_tokens_further_up_and_right() -> None:
    points = (RatePoint("a", 1, 100.0, 100.0), RatePoint("b", 8, 50.0, 400.0))
    chart = RateChart("tp8", "1024 tokens in, 256 out", True, (RateLine("candidate", points),))
    drawn = str(rate_chart(chart))
    places = re.findall(r'<svg x="([\d.]+)%" y="([\d.]+)"', drawn)
    (x1, y1), (x2, y2) = [(float(x), float(y)) for x, y in places]
    assert x1 > x2
    assert y1 > y2
    assert "1 in flight 100 and 100, 8 in flight 50 and 400" in drawn


def test_machine_shows_clock_power_heat_throttling_and_gaps() -> None:
    view = view_of(standard())
    names = [chart.name for chart in view.machine.accelerators]
    assert names == [
        "Clock of the multiprocessors",
        "Power",
        "Temperature",
        "Share of time with a kernel",
        "Samples with lowered clocks",
        "Longest time without a sample",
    ]
    assert {len(chart.boots) for chart in view.machine.accelerators} == {10}
    assert view.machine.absent == ()
    power = view.machine.accelerators[1]
    assert {(boot.low, boot.high) for boot in power.boots} == {(612.0, 612.0)}
    assert [chart.limit for chart in view.machine.accelerators[-2:]] == [5.0, 2000.0]
    assert "| Power | W | 612 | 612 |" in render_markdown(view)


def test_machine_without_telemetry_says_why_in_every_form() -> None:
    view = view_of(good_records())
    why = "The NVML binding is not installed: No module named 'pynvml'."
    assert view.machine.accelerators == ()
    assert view.machine.absent == (why,)
    assert f"No telemetry of accelerators: {why}" in plain(render_html(view)).replace("&#39;", "'")
    assert "No telemetry of accelerators: The NVML binding" in render_markdown(view)
    nothing = view_of(replace(good_records(), telemetry=()))
    assert nothing.machine.absent == ("The run recorded no telemetry at all.",)


def test_extent_chart_begins_at_zero_and_draws_the_limit() -> None:
    boots = (BootExtent(0, "baseline", 0.0, 50.0, 100.0), BootExtent(1, "candidate", 20, 30, 40))
    drawn = str(extent_chart(MachineChart("Power", "W", boots, limit=90.0)))
    spans = re.findall(r'y1="([\d.]+)"[^>]*y2="([\d.]+)" class="span (\w+)"', drawn)
    assert spans == [("118", "18", "baseline"), ("98", "78", "candidate")]
    assert 'class="limit"' in drawn
    assert "boot 1 candidate 20 to 40" in drawn


def test_audit_names_shared_files_and_silent_ways_back() -> None:
    view = view_of(good_records())
    assert view.audit is not None
    assert [row.path_class for row in view.audit.classes] == ["shared", "model_only", "test"]
    (way,) = view.audit.returns
    assert way.what == "declines, silent when tokens not in self.prepared"
    page, text = plain(render_html(view)), render_markdown(view)
    assert "vllm/config/model.py" in page
    assert "selected by configuration decode_backend" in page
    assert "other models use it too" in text
    assert "silent when tokens not in self.prepared" in text


def test_audit_that_is_not_there_is_said() -> None:
    view = view_of(replace(good_records(), isolation=None))
    assert "holds no audit of the change" in plain(render_html(view))
    assert "The bundle holds no audit of the change." in render_markdown(view)


def test_separation_says_who_ran_as_whom_and_what_changed() -> None:
    good = good_records()
    same = {"engine_user": "same", "why_same": "The runner is not root."}
    altered = {"alterations": (Alteration(path="<referee>/k3runner/run.py", kind="content"),)}
    first, second, *rest = good.separation
    changed = (first.model_copy(update=same), second.model_copy(update=altered), *rest)
    view = view_of(replace(good, separation=changed))
    page, text = plain(render_html(view)), render_markdown(view)
    assert "1 of 4 engines ran as the referee" in page
    assert "The runner is not root." in page
    assert "<referee>/k3runner/run.py" in page.replace("&lt;", "<").replace("&gt;", ">")
    assert "The guard found protected files that changed." in page
    assert "1: &lt;referee&gt;/k3runner/run.py" in text
    nothing = view_of(replace(good, separation=()))
    assert "Nothing is recorded of the separation" in plain(render_html(nothing))


def test_csv_holds_every_number_of_every_boot_with_its_trust() -> None:
    records = standard()
    verdict = derive(records)
    rows = list(csv.DictReader(io.StringIO(render_csv(records, verdict, "unsealed"))))
    assert tuple(rows[0]) == COLUMNS
    assert {row["trust"] for row in rows} == {"unsealed"}
    rates = {
        (row["slot"], row["role"]): float(row["value"])
        for row in rows
        if row["kind"] == "boot" and row["metric"] == "output_tokens_per_s"
    }
    evidence = next(c.evidence for c in verdict.cells if c.cell_id == SERVING_CELL_ID)  # type: ignore[union-attr]
    assert isinstance(evidence, ServingEvidence)
    assert rates == {
        (str(boot.slot), boot.role): boot.output_tokens_per_s for boot in evidence.boots
    }
    lower = [r for r in rows if r["metric"] == "output_tokens_per_s.lower"]
    assert [float(row["value"]) for row in lower] == [evidence.intervals[0].lower]
    assert {r["cell_id"] for r in rows if r["kind"] == "cell"} == {
        cell.cell_id for cell in verdict.cells
    }
    assert any(r["kind"] == "coverage" and r["value"] == "1.0" for r in rows)


def test_markdown_of_a_long_run_fits_a_forge_and_names_what_it_leaves_out() -> None:
    view = view_of(good_records())
    many = tuple(replace(view.cells[0], cell_id=f"cell-{number}") for number in range(400))
    text = render_markdown(replace(view, cells=many))
    assert len(text) <= 60_000
    assert "Too long for this section, and in the report's page: Cells." in text
    assert "<summary>The machine</summary>" in text


def test_times_of_a_package_that_is_not_right_are_marked_as_worthless() -> None:
    def wrong(line: KernelLine) -> KernelLine:
        bad = line.kind == "case" and (line.op, line.group) == ("router", "corner")
        return line.model_copy(update={"outcome": "failed"}) if bad else line

    view = view_of(good_kernel_records(change_line=wrong))
    said = "These times count for nothing: Times count only for right results, and router is not."
    assert said in plain(render_html(view))
    assert said in render_markdown(view)
    good = view_of(good_kernel_records())
    assert "count for nothing" not in render_html(good)
    assert good.claims[2].question.startswith("Does every op agree with its reference")
