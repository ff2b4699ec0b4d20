"""The kernels tier: records and plans that contradict themselves, or ask for less."""

from dataclasses import replace
from typing import Any

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.canonical import canonical_json
from k3bundle.derive import derive
from k3bundle.plan import SkippedCell
from k3bundle.standard_gates import looser_than_standard
from k3bundle_testing import good_records
from k3bundle_testing.example_kernels import (
    example_kernel_plan,
    good_kernel_records,
    kernel_lines,
)

from .kernel_lines import cause, findings, lines_with


def bad_line(**changes: Any) -> RunRecords:
    """The first case says something else."""
    first = kernel_lines()[0]
    return good_kernel_records(
        change_line=lambda line: line.model_copy(update=changes) if line == first else line
    )


@pytest.mark.parametrize(
    ("records", "code", "words"),
    [
        (bad_line(boot_id="boot-7.0"), "boot-out-of-plan", "Expected a started boot"),
        (bad_line(cell_id="other"), "cell-out-of-plan", "Expected a planned kernel cell"),
        (bad_line(cell_id="audit"), "records-inconsistent", "Expected lines of audit, found case"),
        (
            bad_line(case="corner_m3"),
            "records-inconsistent",
            "Expected each answer once, found 'corner_m3' twice",
        ),
        (
            good_kernel_records(change_line=lines_with("command", lines=5)),
            "records-inconsistent",
            "Expected 5 lines of check, found 6",
        ),
        (
            good_kernel_records(change_line=lines_with("command", unread_lines=2)),
            "records-inconsistent",
            "Expected a sentence for 2 unread lines",
        ),
        (
            good_kernel_records(change_line=lines_with("command", unread=("Line 1.",))),
            "records-inconsistent",
            "Expected a sentence for 0 unread lines",
        ),
        (
            good_kernel_records(
                change_line=lambda x: None if (x.kind, x.cell_id) == ("command", "audit") else x
            ),
            "records-inconsistent",
            "Expected the command of audit, found none",
        ),
    ],
)
def test_lines_that_tell_another_story_are_refused(
    records: RunRecords, code: str, words: str
) -> None:
    found = findings(records)
    assert any(one.code == code and words in one.why for one in found)


def test_a_serving_cell_without_a_client_and_a_kernel_cell_with_one_are_refused() -> None:
    served, package = good_records(), good_kernel_records()
    silent = (served.cells[0].model_copy(update={"client": None}), *served.cells[1:])
    found = [one.why for one in findings(replace(served, cells=silent))]
    assert any("Expected what the load client saw" in why for why in found)
    client = getattr(served.cells[0], "client", None)
    talking = (package.cells[0].model_copy(update={"client": client}), *package.cells[1:])
    found = [one.why for one in findings(replace(package, cells=talking))]
    assert any("Expected no load client" in why for why in found)
    verdict = derive(replace(served, cells=silent))
    assert cause(verdict, served.plan.cells[0].cell_id) == "client_bound"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tier": "smoke"}, "Expected a package in the kernels tier alone"),
        ({"pairing": "single"}, "Expected a package in the kernels tier alone"),
        ({"cells": good_records().plan.cells[:1]}, "Expected kernel cells in a package plan alone"),
    ],
)
def test_a_plan_that_is_half_a_package_contradicts_itself(
    changes: dict[str, Any], words: str
) -> None:
    plan = example_kernel_plan(**changes)
    assert any(words in found.why for found in findings(good_kernel_records(plan=plan)))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"bench": None}, "no bench is planned"),
        ({"check": {"groups": ("smoke",)}}, "check does not ask for corner cases"),
        ({"check": {"ops": ("router",)}}, "bench times ops that no check asks for"),
    ],
)
def test_a_plan_that_asks_a_package_for_less_says_so(changed: dict[str, Any], words: str) -> None:
    cells = tuple(
        one.model_copy(update=changed.get(one.cell_id) or {})
        for one in example_kernel_plan().cells
        if changed.get(one.cell_id, {}) is not None
    )
    plan = example_kernel_plan(cells=cells)
    assert words in looser_than_standard(plan)
    assert looser_than_standard(example_kernel_plan()) == ()


def test_a_plan_without_a_gpu_skips_everything_and_is_no_pass() -> None:
    cells = tuple(
        SkippedCell(cell_id=one.cell_id, of_kind="kernel", reason="This machine has no GPU.")
        for one in example_kernel_plan().cells
    )
    good = good_kernel_records(plan=example_kernel_plan(cells=cells))
    assert derive(replace(good, cells=(), kernels=())).status == "INCOMPLETE"


def test_no_number_a_package_can_say_makes_judging_raise() -> None:
    extreme: dict[str, Any] = {
        "latency_us": 1e-3,
        "spread_us": 1e12,
        "roofline_us": 1e12,
        "read_us": 1e-3,
    }
    records = good_kernel_records(change_line=lines_with("timing", **extreme))
    assert canonical_json(derive(records))
