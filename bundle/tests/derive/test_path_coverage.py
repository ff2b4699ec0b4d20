"""Which path served the decode steps of a cell."""

from dataclasses import replace
from typing import Literal

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.coverage import CoverageSnapshot, StepCount
from k3bundle.derive import derive
from k3bundle.graph_record import GraphRow, GraphTable, KernelProfile
from k3bundle.record import MAX_SAFE_INTEGER
from k3bundle.verdict import CellCoverage, CellInvalid, CellPass, CellResult

from .changes import (
    with_coverage,
)
from .records import (
    a_plan,
    a_run,
    boot_slots,
    coverage_of,
)

CELL_IDS = ("serving", "greedy", "structured", "sampling", "streaming", "chat")
BASELINE, CANDIDATE = boot_slots()[:2]


def cell_named(records: RunRecords, cell_id: str = "greedy") -> CellResult:
    return next(cell for cell in derive(records).cells if cell.cell_id == cell_id)


def invalid(records: RunRecords, cell_id: str = "greedy") -> CellInvalid:
    cell = cell_named(records, cell_id)
    assert isinstance(cell, CellInvalid)
    return cell


def snapshot(
    moment: Literal["before", "after"],
    *counts: StepCount,
    source: Literal["host", "device", "unavailable"] = "host",
    backend: str | None = "candidate",
) -> CoverageSnapshot:
    return CoverageSnapshot(
        boot_id="boot-1.0",
        cell_id="greedy",
        moment=moment,
        source=source,
        configured_backend=backend,
        counts=counts,
    )


def steps(
    kind: Literal["decode", "verify", "prefill", "mixed"],
    path: str,
    count: int,
    reason: str | None = None,
) -> StepCount:
    return StepCount(kind=kind, path=path, reason=reason, count=count)


def candidate_with(*after: StepCount, backend: str | None = "candidate") -> RunRecords:
    return with_coverage(
        a_run(), "greedy", 1, snapshot("before"), snapshot("after", *after, backend=backend)
    )


def test_coverage_is_the_difference_of_the_snapshots() -> None:
    cell = cell_named(a_run())
    assert isinstance(cell, CellPass)
    assert cell.coverage[1] == CellCoverage(
        slot=1,
        arm="candidate",
        source="host",
        decode_steps=40,
        expected_path_steps=40,
        share=1.0,
        fallback_reasons={},
    )


@pytest.mark.parametrize("cell_id", CELL_IDS)
def test_a_candidate_served_by_stock_measures_stock(cell_id: str) -> None:
    stock = coverage_of(cell_id, CANDIDATE, path="stock", steps=412)
    cell = invalid(with_coverage(a_run(), cell_id, 1, *stock), cell_id)
    assert cell.cause == "measures_stock"
    assert cell.reason.startswith(
        "measures stock: the candidate's decode path served 0 of 412 decode steps in boot 1; "
        "the engine says it was started with backend stock"
    )


def test_prefill_and_mixed_steps_do_not_count() -> None:
    records = candidate_with(
        steps("decode", "candidate", 19),
        steps("verify", "stock", 1, "the batch is too large"),
        steps("prefill", "stock", 500, "prompts are stock"),
        steps("mixed", "stock", 70, "prompts are stock"),
    )
    cell = cell_named(records)
    assert isinstance(cell, CellPass)
    assert cell.coverage[1].share == 0.95
    assert cell.coverage[1].fallback_reasons == {
        "the batch is too large": 1,
        "prompts are stock": 570,
    }


def test_a_share_below_the_minimum_measures_stock_and_says_why() -> None:
    # The published case of seven drafts at sixteen requests: 40 of 9,040 steps.
    cell = invalid(
        candidate_with(
            steps("verify", "candidate", 40),
            steps("verify", "stock", 9_000, "128 rows are more than 64."),
        )
    )
    assert cell.cause == "measures_stock"
    assert "served 40 of 9040 decode steps" in cell.reason
    assert "(9000 steps): 128 rows are more than 64" in cell.reason


def test_an_engine_that_names_another_backend_measures_stock() -> None:
    cell = invalid(candidate_with(steps("decode", "candidate", 40), backend="stock"))
    assert cell.cause == "measures_stock"
    assert "started with backend stock" in cell.reason


def test_a_baseline_served_by_another_path_is_not_covered() -> None:
    other = coverage_of("greedy", BASELINE, path="candidate")
    cell = invalid(with_coverage(a_run(), "greedy", 0, *other))
    assert cell.cause == "no_coverage"
    assert "The baseline was not served by its own path" in cell.reason


def test_measures_stock_is_said_before_a_baseline_without_coverage() -> None:
    stock = coverage_of("greedy", CANDIDATE, path="stock")
    records = with_coverage(with_coverage(a_run(), "greedy", 0), "greedy", 1, *stock)
    assert invalid(records).cause == "measures_stock"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ((), (), "did not say which path"),
        ((snapshot("before"),), (), "did not say which path"),
        (
            (snapshot("before"),),
            (snapshot("after", source="unavailable", backend=None),),
            "did not say which path",
        ),
        ((snapshot("before"),), (snapshot("after"),), "no decode step was counted"),
        (
            (snapshot("before", steps("decode", "candidate", 9)),),
            (snapshot("after", steps("decode", "candidate", 8)),),
            "went backwards",
        ),
        (
            (snapshot("before", steps("decode", "candidate", 9)),),
            (snapshot("after", steps("decode", "stock", 99)),),
            "went backwards",
        ),
        (
            (snapshot("before"),),
            (snapshot("after", steps("decode", "candidate", 9), source="device"),),
            "other sources",
        ),
        (
            (snapshot("before"),),
            (
                snapshot(
                    "after",
                    steps("decode", "candidate", MAX_SAFE_INTEGER),
                    steps("decode", "stock", MAX_SAFE_INTEGER),
                ),
            ),
            "beyond 2^53",
        ),
    ],
)
def test_coverage_that_is_not_there_or_not_right_is_invalid(
    before: tuple[CoverageSnapshot, ...], after: tuple[CoverageSnapshot, ...], words: str
) -> None:
    cell = invalid(with_coverage(a_run(), "greedy", 1, *before, *after))
    assert cell.cause == "no_coverage"
    assert words in cell.reason
    assert (cell.coverage[1].source, cell.coverage[1].share) in {
        ("unavailable", None),
        ("host", None),
    }


def test_a_single_server_may_have_no_coverage() -> None:
    plan = a_plan(boots=boot_slots(("candidate",)), pairing="single")
    assert cell_named(with_coverage(a_run(plan), "chat", 0), "chat").status == "PASS"
    stock = coverage_of("chat", plan.boots[0], path="stock")
    assert invalid(with_coverage(a_run(plan), "chat", 0, *stock), "chat").cause == "measures_stock"


PATTERN = "*kda_decode*"


def _table(boot_id: str, moment: Literal["before", "after"], count: int) -> GraphTable:
    row = GraphRow(unpadded_tokens=1, padded_tokens=1, mode="FULL", count=count)
    return GraphTable(
        boot_id=boot_id, cell_id="greedy", moment=moment, capture_sizes=(1, 2, 4), rows=(row,)
    )


def with_graphs(kernels: dict[str, str], *, patterns: tuple[str, ...] = (PATTERN,)) -> RunRecords:
    """A run whose engine counts no steps, with graph tables of the greedy cell."""
    plan = a_plan()
    arms = tuple(
        one.model_copy(update={"kernel_patterns": patterns if one.name == "candidate" else ()})
        for one in plan.arms
    )
    records = a_run(plan.model_copy(update={"arms": arms}))
    coverage = tuple(
        one.model_copy(update={"source": "unavailable", "counts": (), "configured_backend": None})
        if one.cell_id == "greedy"
        else one
        for one in records.coverage
    )
    graphs: list[GraphTable | KernelProfile] = []
    for slot in boot_slots():
        boot_id = f"boot-{slot.slot}.0"
        graphs += [_table(boot_id, "before", 5), _table(boot_id, "after", 45)]
        graphs.append(
            KernelProfile(
                boot_id=boot_id,
                unpadded_tokens=1,
                steps=3,
                graph_steps=3,
                kernels=(kernels[slot.arm], "nvjet"),
            )
        )
    return replace(records, coverage=coverage, graphs=tuple(graphs))


def test_replayed_graphs_with_the_paths_kernels_cover_both_arms() -> None:
    cell = cell_named(with_graphs({"baseline": "fla_kda", "candidate": "kda_decode_sm103"}))
    assert isinstance(cell, CellPass)
    assert [(one.source, one.decode_steps, one.share) for one in cell.coverage[:2]] == [
        ("graphs", 40, 1.0),
        ("graphs", 40, 1.0),
    ]


def test_a_candidate_whose_graphs_hold_only_stock_kernels_measures_stock() -> None:
    cell = invalid(with_graphs({"baseline": "fla_kda", "candidate": "fla_kda"}))
    assert cell.cause == "measures_stock"
    assert cell.reason.startswith("measures stock")
    assert "its graph holds no kernel *kda_decode*" in cell.reason


def test_a_baseline_whose_graphs_hold_the_candidates_kernels_is_not_the_baseline() -> None:
    cell = invalid(with_graphs({"baseline": "kda_decode", "candidate": "kda_decode"}))
    assert cell.cause == "no_coverage"
    assert "The baseline was not served by its own path" in cell.reason


def test_graphs_without_patterns_are_no_coverage() -> None:
    kernels = {"baseline": "fla_kda", "candidate": "kda_decode"}
    cell = invalid(with_graphs(kernels, patterns=()))
    assert cell.cause == "no_coverage"
    assert "the subject names no kernel of the path" in cell.reason
