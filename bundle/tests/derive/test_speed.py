"""What a serving cell has to show about speed: roles, bounds, null pairs, drift, regressions."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.canonical import canonical_json, sha256_hex
from k3bundle.derive import derive
from k3bundle.derive.speed_rule import decide
from k3bundle.plan import BootSlot, Deployment, ServingCell
from k3bundle.request import RequestRecord
from k3bundle.run import AttemptRecord
from k3bundle.speed_role import Excused, NonInferiority
from k3bundle.subject import ArmName
from k3bundle.verdict import CellInvalid, CellResult, CellSkipped, ServingEvidence, Verdict

from .changes import change_requests, update, with_coverage
from .records import (
    ABBA,
    AT,
    CELLS,
    GATES,
    GREEDY,
    SERVING,
    SKIPPED,
    a_plan,
    a_run,
    boot_slots,
    coverage_of,
    logprobs,
)

SPEED = GATES.model_copy(update={"claims_speed": True, "non_inferiority_margin": 0.05})
EIGHT = boot_slots((*ABBA, *ABBA))


def serving(name: str, **changes: Any) -> ServingCell:
    return SERVING.model_copy(update={"cell_id": name, **changes})


def with_null(slots: Iterable[BootSlot], pairs: int = 1) -> tuple[BootSlot, ...]:
    """The slots with A-A pairs in front."""
    null = [
        BootSlot(slot=i, arm="baseline", pair=90 + i // 2, role="null") for i in range(2 * pairs)
    ]
    moved = [slot.model_copy(update={"slot": slot.slot + len(null)}) for slot in slots]
    return (*null, *moved)


def timed(records: RunRecords, cell: str, factors: Mapping[int, float]) -> RunRecords:
    """The same run where a cell takes a boot that many times as long."""
    for slot, factor in factors.items():

        def stretch(request: RequestRecord, by: float = factor) -> RequestRecord:
            sent, ended = round(request.sent_at_ns * by), round(request.ended_at_ns * by)
            return request.model_copy(update={"sent_at_ns": sent, "ended_at_ns": ended})

        records = change_requests(records, stretch, cell=cell, slots=[slot])
    return records


def candidates(slots: Iterable[BootSlot], *factors: float) -> dict[int, float]:
    found = [slot.slot for slot in slots if slot.arm == "candidate"]
    return dict(zip(found, factors, strict=True))


def run_of(*cells: ServingCell, boots: tuple[BootSlot, ...] = EIGHT, **gates: Any) -> RunRecords:
    return a_run(
        a_plan((*cells, *CELLS[1:], SKIPPED_BY_SCOPE), boots=boots, gates=changed(**gates))
    )


def changed(**gates: Any) -> Any:
    return SPEED.model_copy(update=gates)


SKIPPED_BY_SCOPE = SKIPPED.model_copy(update={"cause": "unsupported"})
FAST = (0.80, 0.81, 0.80, 0.79)
SAME = (1.0, 1.001, 0.999, 1.0)
SLOW = (1.25, 1.24, 1.25, 1.26)


def cell_of(verdict: Verdict, name: str) -> CellResult:
    return next(cell for cell in verdict.cells if cell.cell_id == name)


def null_of(cell: CellResult) -> Any:
    assert not isinstance(cell, CellSkipped)
    assert isinstance(cell.evidence, ServingEvidence)
    return cell.evidence.null


@pytest.mark.parametrize(
    ("lower", "upper", "status"),
    [
        (1.01, 1.02, "PASS"),
        (1.0, 1.02, "INCONCLUSIVE"),
        (0.9, 1.1, "INCONCLUSIVE"),
        (0.9, 1.0, "INCONCLUSIVE"),
        (0.9, 0.99, "FAIL"),
    ],
)
def test_the_bounds_alone_decide(lower: float, upper: float, status: str) -> None:
    assert decide(lower, upper, 1.0) == status


def test_a_cell_that_must_not_be_slower_passes_within_its_margin() -> None:
    cells = (
        serving("default", speed=NonInferiority()),
        serving("narrow", speed=NonInferiority(margin=0.0001)),
        serving("slow", speed=NonInferiority()),
    )
    records = run_of(serving("fast"), *cells)
    records = timed(records, "fast", candidates(EIGHT, *FAST))
    for name in ("default", "narrow"):
        records = timed(records, name, candidates(EIGHT, *SAME))
    verdict = derive(timed(records, "slow", candidates(EIGHT, *SLOW)))
    found = {name: cell_of(verdict, name).status for name in ("default", "narrow", "slow")}
    assert found == {"default": "PASS", "narrow": "INCONCLUSIVE", "slow": "FAIL"}
    assert "exceeds 0.950" in cell_of(verdict, "default").reason
    assert verdict.claims[3].status == "FAIL"
    assert verdict.claims[3].sentence.startswith("Faster in 1 of 1 supported cells. Cell slow:")


def test_an_excused_cell_is_shown_and_keeps_faster_from_passing() -> None:
    excused = serving("long", speed=Excused(reason="Prefill dominates there."))
    records = run_of(serving("fast"), serving("fast-2"), excused)
    for name in ("fast", "fast-2"):
        records = timed(records, name, candidates(EIGHT, *FAST))
    verdict = derive(timed(records, "long", candidates(EIGHT, *SLOW)))
    cell = cell_of(verdict, "long")
    assert cell.status == "PASS"
    assert "excused from being faster: Prefill dominates there" in cell.reason
    faster = verdict.claims[3]
    assert faster.status == "NOT_CLAIMED"
    assert faster.sentence == (
        "Faster in 2 of 3 supported cells, 1 excused: long (Prefill dominates there). "
        "So it is not claimed for all."
    )
    assert verdict.status == "INCOMPLETE"
    number = next(n for n in verdict.headline if n.name == "faster_cells")
    assert (number.value, number.label) == (
        2.0,
        "Cells in which the candidate is faster: 2 of 3 supported cells, 1 excused",
    )
    assert [regression.cell_id for regression in verdict.regressions] == ["long"]


def test_a_cell_that_the_machine_cannot_run_keeps_faster_from_passing() -> None:
    plan = a_plan((serving("fast"), *CELLS[1:], SKIPPED), boots=EIGHT, gates=SPEED)
    verdict = derive(timed(a_run(plan), "fast", candidates(EIGHT, *FAST)))
    assert verdict.claims[3].status == "NOT_CLAIMED"
    assert "1 of 2 supported cells, 1 not run: skipped (The node has no GPU)" in (
        verdict.claims[3].sentence
    )


def test_faster_in_every_supported_cell_passes_with_the_smallest_gain_it_would_find() -> None:
    records = run_of(serving("fast"), serving("same", speed=NonInferiority()))
    records = timed(records, "fast", candidates(EIGHT, *FAST))
    verdict = derive(timed(records, "same", candidates(EIGHT, *SAME)))
    assert verdict.status == "PASS"
    assert verdict.claims[3].sentence == (
        "The candidate is faster in 1 of 1 supported cells and not slower in 1 other cell; "
        "the subject does not claim 1 more cell."
    )
    assert "the candidate is faster in 1 of 1 supported cells." in verdict.sentence
    gain = next(n for n in verdict.headline if n.name == "minimum_detectable_gain_share")
    assert gain.cell_id == "fast"
    assert 0.005 < gain.value < 0.05


def test_only_a_significant_loss_is_a_regression() -> None:
    names = ("a", "b", "c")
    records = run_of(*(serving(name) for name in names))
    for name, factors in zip(names, (SLOW, SAME, (0.9, 1.1, 0.95, 1.05)), strict=True):
        records = timed(records, name, candidates(EIGHT, *factors))
    (found,) = derive(records).regressions
    assert found.cell_id == "a"
    assert found.ratio == pytest.approx(0.8, rel=0.01)
    assert found.adjusted_p_value < 0.001
    smoke = records.plan.model_copy(update={"gates": GATES})
    assert derive(replace(records, plan=smoke)).regressions == ()


def test_a_null_pair_shows_the_noise_and_is_in_no_ratio() -> None:
    boots = with_null(EIGHT)
    records = timed(run_of(serving("s"), boots=boots), "s", candidates(boots, *FAST))
    records = timed(records, "s", {1: 1.004})
    verdict = derive(records)
    assert verdict.status == "PASS"
    cell = cell_of(verdict, "s")
    assert not isinstance(cell, CellSkipped)
    assert isinstance(cell.evidence, ServingEvidence)
    assert [boot.role for boot in cell.evidence.boots] == ["null"] * 2 + ["compare"] * 8
    assert cell.evidence.intervals[0].pairs == 4
    null = cell.evidence.null
    assert null is not None
    assert null.pairs == 1
    assert null.farthest_ratio == pytest.approx(1 / 1.004)
    assert null.lower < null.farthest_ratio < null.upper
    # Only serving cells run in a null pair, and every cell is whole without the others.
    assert cell_of(verdict, "greedy").status == "PASS"


@pytest.mark.parametrize("factor", [1.3, 0.7])
def test_a_null_pair_outside_its_interval_marks_the_cell_noisy(factor: float) -> None:
    boots = with_null(EIGHT)
    records = timed(run_of(serving("s"), boots=boots), "s", candidates(boots, *FAST))
    cell = cell_of(derive(timed(records, "s", {1: factor})), "s")
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "noisy_null_pair"
    assert "The baseline differs from itself: 1 null pair up to" in cell.reason
    assert derive(timed(records, "s", {1: factor})).claims[3].status == "INVALID"


def test_the_interval_of_null_pairs_widens_with_the_looks() -> None:
    boots = with_null(EIGHT)
    one = timed(run_of(serving("s"), boots=boots), "s", candidates(boots, *FAST))
    two = timed(run_of(serving("s"), serving("t"), boots=boots), "s", candidates(boots, *FAST))
    narrow, wide = (null_of(cell_of(derive(r), "s")) for r in (one, two))
    assert wide.lower < narrow.lower < 1 < narrow.upper < wide.upper


def test_null_pairs_without_spread_are_held_against_the_tolerance() -> None:
    boots = with_null(EIGHT)
    records = timed(run_of(serving("s"), boots=boots), "s", candidates(boots, *(0.8,) * 4))
    null = null_of(cell_of(derive(records), "s"))
    assert null.upper == pytest.approx(1.005)


def test_a_single_block_has_too_few_pairs_for_the_noise_of_one_pair_alone() -> None:
    boots = boot_slots(("baseline", "candidate"))
    records = run_of(serving("s"), boots=with_null(boots))
    cell = cell_of(derive(records), "s")
    assert cell.status == "INCONCLUSIVE"
    assert null_of(cell) is None
    assert "would find no gain of any size" in cell.reason


def test_drift_that_hides_a_gain_is_taken_out_where_the_plan_says_so() -> None:
    # Every boot is 2 % slower than the one before; the candidate gains 1 %.
    drift = {slot.slot: 1.02**slot.slot for slot in EIGHT}
    factors = {
        slot.slot: drift[slot.slot] * (0.99 if slot.arm == "candidate" else 1) for slot in EIGHT
    }
    plain = derive(timed(run_of(serving("s")), "s", factors))
    adjusted = derive(timed(run_of(serving("s"), drift_adjusted=True), "s", factors))
    assert cell_of(plain, "s").status == "INCONCLUSIVE"
    assert cell_of(adjusted, "s").status == "PASS"
    assert "a drift of -1.96 % a boot taken out" in cell_of(adjusted, "s").reason


def test_a_cell_that_the_plan_leaves_to_stock_must_be_served_by_stock() -> None:
    aside = serving("wide", speed=NonInferiority(), expects_fallback=True)
    records = run_of(serving("s"), aside)
    records = timed(records, "s", candidates(EIGHT, *FAST))
    records = timed(records, "wide", candidates(EIGHT, *SAME))
    cell = cell_of(derive(records), "wide")
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "unexpected_path"
    assert derive(records).claims[1].status == "INVALID"
    for slot in EIGHT:
        if slot.arm == "candidate":
            before, after = (
                s.model_copy(update={"configured_backend": "candidate"})
                for s in coverage_of("wide", slot, path="stock")
            )
            records = with_coverage(records, "wide", slot.slot, before, after)
    verdict = derive(records)
    assert verdict.status == "PASS"
    # Steps that were left to stock by plan are none of the candidate's path.
    coverage = next(n for n in verdict.headline if n.name == "decode_coverage_share")
    assert coverage.value == 1.0


def test_speed_needs_answers_in_its_own_deployment() -> None:
    arms: tuple[ArmName, ...] = (*ABBA, *ABBA)
    other = tuple(
        BootSlot(slot=8 + i, arm=arm, pair=4 + i // 2, deployment="wide")
        for i, arm in enumerate(arms)
    )
    plan = a_plan(
        (serving("s"), serving("t", deployment="wide"), *CELLS[1:]),
        boots=(*EIGHT, *other),
        gates=SPEED,
    ).model_copy(update={"deployments": (Deployment(name="default"), Deployment(name="wide"))})
    records = timed(a_run(plan), "s", candidates(EIGHT, *FAST))
    records = timed(records, "t", candidates(other, *FAST))
    verdict = derive(records)
    assert {cell_of(verdict, name).status for name in ("s", "t")} == {"PASS"}
    assert verdict.claims[3].status == "INVALID"
    assert "no greedy cell ran in wide" in verdict.claims[3].sentence
    more = plan.model_copy(
        update={
            "cells": (
                *plan.cells,
                GREEDY.model_copy(update={"cell_id": "greedy-wide", "deployment": "wide"}),
            )
        }
    )
    records = timed(a_run(more), "s", candidates(EIGHT, *FAST))
    assert derive(timed(records, "t", candidates(other, *FAST))).status == "PASS"


def test_a_resumed_run_claims_speed_only_on_the_same_subject() -> None:
    records = timed(run_of(serving("s")), "s", candidates(EIGHT, *FAST))
    digest = sha256_hex(canonical_json(records.subject))
    for found, status in ((None, "INVALID"), ("0" * 64, "INVALID"), (digest, "PASS")):
        again = AttemptRecord(
            attempt=1, started_at_utc=AT, resumed=True, torn_lines_dropped=0, subject_sha256=found
        )
        verdict = derive(replace(records, attempts=(*records.attempts, again)))
        assert verdict.claims[3].status == status
        assert verdict.resumed is True


def test_wrong_answers_are_never_faster() -> None:
    records = timed(run_of(serving("s")), "s", candidates(EIGHT, *FAST))
    other = (*range(7), 99)
    slots = [slot.slot for slot in EIGHT if slot.arm == "candidate"]
    wrong = update(token_ids=other, logprobs=logprobs(other))
    verdict = derive(change_requests(records, wrong, cell="greedy", slots=slots))
    assert (verdict.claims[2].status, verdict.claims[3].status) == ("FAIL", "INVALID")
