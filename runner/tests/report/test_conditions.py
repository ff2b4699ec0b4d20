"""The page of conditions: declared beside measured, and nothing left out."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.plan import Plan, ServingCell, SkippedCell, TierName
from k3bundle.scope_record import DeclaredDeployment, DeclaredScope
from k3bundle.speed_role import Excused, NonInferiority
from k3bundle_testing import good_records
from k3bundle_testing.example_plan import SERVING_CELL_ID, example_plan
from k3runner.report.conditions import ConditionsView, conditions_view
from k3runner.report.conditions_text import render_conditions_markdown
from k3runner.report.html import render_conditions_html

SCOPE = DeclaredScope(
    compute_capabilities=("9.0", "10.3"),
    maximum_concurrency=64,
    maximum_prompt_tokens=1024,
    prepared_limit=64,
    deployments=(
        DeclaredDeployment(name="default", gpu_count=1, tensor_parallel=8),
        DeclaredDeployment(name="wide", gpu_count=16, tensor_parallel=16, draft_tokens=7),
    ),
)


def plan_with(*more: SkippedCell, tier: TierName = "quick", **serving: Any) -> Plan:
    plan = example_plan(tier=tier)
    cells = (
        cell.model_copy(update=serving) if isinstance(cell, ServingCell) else cell
        for cell in plan.cells
    )
    return plan.model_copy(update={"cells": (*cells, *more), "scope": SCOPE})


def view_of(records: RunRecords) -> ConditionsView:
    return conditions_view(records, derive(records), None)


def run_of(plan: Plan, **changes: object) -> ConditionsView:
    return view_of(good_records(tier=plan.tier, plan=plan, **changes))


def skipped(cell_id: str, **changes: object) -> SkippedCell:
    return SkippedCell(cell_id=cell_id, reason="It is not there.").model_copy(update=changes)


def state_of(view: ConditionsView, cell_id: str = SERVING_CELL_ID) -> str:
    found = [c.state for row in view.loads for _, c in row.cells if c.cell_id == cell_id]
    return found[0]


def found_of(view: ConditionsView, declared: str) -> tuple[str, str]:
    line = next(one for one in view.lines if one.declared.startswith(declared))
    return line.state, line.found


@pytest.mark.parametrize(
    ("serving", "changes", "state"),
    [
        ({}, {"candidate_speed": 1.3}, "faster"),
        ({}, {"candidate_speed": 0.5}, "fell_short"),
        ({}, {}, "undecided"),
        ({}, {"candidate_path": "stock"}, "measures_stock"),
        ({}, {"failed_serving_requests": 4}, "not_judged"),
        ({"speed": Excused(reason="Prefill bounds it.")}, {}, "excused"),
        ({"speed": NonInferiority(margin=0.2)}, {"candidate_speed": 1.1}, "not_slower"),
        (
            {"speed": NonInferiority(margin=0.2), "expects_fallback": True},
            {"candidate_speed": 1.1},
            "left_to_stock",
        ),
    ],
)
def test_cell_has_the_state_of_its_role_and_result(
    serving: dict[str, Any], changes: dict[str, Any], state: str
) -> None:
    assert state_of(run_of(plan_with(**serving), **changes)) == state


def test_smoke_says_measured_and_never_faster() -> None:
    assert state_of(run_of(plan_with(tier="smoke"), candidate_speed=1.3)) == "reported"


def test_what_the_machine_lacks_is_not_measured_and_what_is_not_claimed_is_said() -> None:
    wide = skipped("wide-serving-isl64-osl8-c4", deployment="wide")
    long = skipped("serving-isl9999-osl8-c1", cause="unsupported")
    view = run_of(plan_with(wide, long), candidate_speed=1.3)
    assert state_of(view, wide.cell_id) == "not_measured"
    assert state_of(view, long.cell_id) == "not_claimed"
    assert ("wide", "64 tokens in, 8 out") in [(row.deployment, row.load) for row in view.loads]
    assert found_of(view, "wide: 16 GPUs, TP 16, DCP 1, 7 drafts") == (
        "not_measured",
        "1 not measured",
    )


def test_declared_lines_stand_beside_what_was_found() -> None:
    view = run_of(plan_with(), candidate_speed=1.3)
    assert found_of(view, "compute capability 9.0") == ("measured", "1 x Example GPU")
    assert found_of(view, "compute capability 10.3") == ("not_measured", "not in this machine")
    assert found_of(view, "up to 64") == ("measured", "measured at 2; beyond 2 not measured")
    assert found_of(view, "default: 1 GPU, TP 8") == ("faster", "1 faster")
    assert found_of(view, "wide: 16 GPUs") == ("not_measured", "left out of the plan: wide")
    assert found_of(view, "prepared up to 64")[0] == "not_measured"
    features = {line.declared: line.state for line in view.lines if line.dimension == "Feature"}
    assert features == dict.fromkeys(
        ("structured output", "sampling", "streaming", "chat"), "measured"
    )


def test_a_line_over_several_cells_says_what_a_reader_must_not_miss() -> None:
    part = skipped("serving-isl64-osl8-c4")
    mixed = run_of(plan_with(part), candidate_speed=1.3)
    assert found_of(mixed, "default: 1 GPU") == ("measured", "1 not measured, 1 faster")
    stock = run_of(plan_with(part), candidate_path="stock")
    assert found_of(stock, "default: 1 GPU")[0] == "measures_stock"
    assert found_of(stock, "up to 64") == ("not_measured", "no timed cell counts")
    assert found_of(stock, "compute capability 9.0")[0] == "not_measured"


def test_a_lost_feature_and_other_answers_are_no_condition_of_use() -> None:
    view = run_of(plan_with(), structured_output_broken=True, greedy_differs=True)
    states = {line.declared: line.state for line in view.lines}
    assert states["structured output"] == "fell_short"
    assert states["2 in flight"] == "fell_short"


def test_restriction_is_named_on_both_forms() -> None:
    plan = plan_with().model_copy(update={"only_deployments": ("default",)})
    view = run_of(plan, candidate_speed=1.3)
    assert "restricted to default by request" in render_conditions_html(view)
    assert "**Restricted to default by request" in render_conditions_markdown(view)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_is_whole_escapes_text_and_asks_for_nothing() -> None:
    hostile = "</script><img src=x> \u202e | `"
    view = run_of(plan_with(skipped("wide-x", reason=hostile, deployment="wide")))
    view = replace(view, limits=(hostile,), subject=hostile)
    html, text = render_conditions_html(view), render_conditions_markdown(view)
    tags = _Tags()
    tags.feed(html)
    assert tags.open == []
    assert not {"script", "img", "link"} & set(tags.seen)
    assert "\u202e" not in html + text
    assert "<img" not in text
    assert not re.search(r"https?://|url\(", html)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) <= 2


def test_markdown_lists_every_timed_cell() -> None:
    view = run_of(plan_with(skipped("wide-serving-isl64-osl8-c4", deployment="wide")))
    text = render_conditions_markdown(view)
    assert "| default | 16 tokens in, 8 out | 2 | ≈ undecided |" in text
    assert "| wide | 64 tokens in, 8 out | 4 | – not measured |" in text  # noqa: RUF001
