"""A run whose arms are started the same way: it shows noise, and is never a PASS or a FAIL."""

from collections.abc import Mapping
from typing import Any

import pytest

from k3bundle.bundle import RunRecords
from k3bundle.derive import derive
from k3bundle.plan import ServingCell
from k3bundle.run import BootReady
from k3bundle.speed_role import NonInferiority
from k3bundle.verdict import CellInvalid, CellResult, Verdict

from .changes import change_requests, update, with_config, with_coverage
from .records import (
    ABBA,
    BACKEND_KEY,
    CELLS,
    GATES,
    SERVING,
    a_plan,
    a_run,
    arm_spec,
    boot_slots,
    coverage_of,
    logprobs,
)

EIGHT = boot_slots((*ABBA, *ABBA))
CANDIDATES = [slot.slot for slot in EIGHT if slot.arm == "candidate"]
SAYS = "Both arms are started the same way"


def same_arms(*cells: ServingCell, claims_speed: bool = True, **other: Any) -> RunRecords:
    """A healthy run in which both arms are the candidate's path."""
    spec = arm_spec("candidate")
    arms = (spec.model_copy(update={"name": "baseline"}), spec.model_copy(update=other))
    gates = GATES.model_copy(update={"claims_speed": claims_speed})
    plan = a_plan((*cells, *CELLS[1:]), boots=EIGHT, gates=gates)
    records = a_run(plan.model_copy(update={"arms": arms}))
    config = next(one.effective_config for one in records.boots if isinstance(one, BootReady))
    for slot in EIGHT:
        records = with_config(records, slot.slot, {**config, BACKEND_KEY: "candidate"})
        for cell in plan.cells:
            served = coverage_of(cell.cell_id, slot, path="candidate")
            records = with_coverage(records, cell.cell_id, slot.slot, *served)
    return records


def slowed(records: RunRecords, factors: Mapping[int, float], cell: str = "s") -> RunRecords:
    """The same run where the cell takes these boots that many times as long."""
    for slot, factor in factors.items():
        ended = {"ended_at_ns": round(60_000_000 * factor)}
        records = change_requests(records, update(**ended), cell=cell, slots=[slot])
    return records


def of_candidates(*factors: float) -> dict[int, float]:
    return dict(zip(CANDIDATES, factors, strict=True))


def cell_of(verdict: Verdict, name: str) -> CellResult:
    return next(cell for cell in verdict.cells if cell.cell_id == name)


def serving(name: str = "s", **changes: Any) -> ServingCell:
    return SERVING.model_copy(update={"cell_id": name, **changes})


@pytest.mark.parametrize("claims_speed", [True, False])
def test_equal_arms_show_nothing_of_a_change(claims_speed: bool) -> None:
    records = same_arms(serving(), claims_speed=claims_speed)
    verdict = derive(slowed(records, of_candidates(1.001, 0.999, 1.002, 0.998)))
    assert verdict.status == "INCOMPLETE"
    assert SAYS in verdict.sentence
    assert {claim.status for claim in verdict.claims} == {"NOT_CLAIMED"}
    assert cell_of(verdict, "s").status == ("INCONCLUSIVE" if claims_speed else "PASS")
    assert cell_of(verdict, "greedy").status == "PASS"


@pytest.mark.parametrize("factor", [1.5, 0.5])
def test_equal_arms_that_differ_are_noise_whichever_is_faster(factor: float) -> None:
    factors = of_candidates(factor, factor * 1.001, factor * 0.999, factor)
    verdict = derive(slowed(same_arms(serving()), factors))
    assert verdict.status == "INVALID"
    cell = cell_of(verdict, "s")
    assert isinstance(cell, CellInvalid)
    assert cell.cause == "noisy_null_pair"
    assert cell.reason.startswith("Both arms are the same, and yet they differ: ")
    assert verdict.regressions == ()


def test_a_cell_that_must_not_be_slower_cannot_fail_against_itself() -> None:
    records = same_arms(serving(), serving("t", speed=NonInferiority()))
    verdict = derive(slowed(records, of_candidates(1.5, 1.501, 1.499, 1.5), cell="t"))
    assert cell_of(verdict, "t").status == "INVALID"
    assert verdict.status == "INVALID"


def test_other_answers_of_an_equal_arm_are_noise_too() -> None:
    other = (*range(7), 99)
    wrong = update(token_ids=other, logprobs=logprobs(other))
    records = change_requests(same_arms(serving()), wrong, cell="greedy", slots=CANDIDATES)
    verdict = derive(records)
    assert cell_of(verdict, "greedy").status == "INVALID"
    assert verdict.status == "INVALID"


def test_one_argument_more_makes_another_arm_of_it() -> None:
    records = same_arms(serving(), engine_arguments=("--max-num-seqs", "4"))
    verdict = derive(slowed(records, of_candidates(1.5, 1.501, 1.499, 1.5)))
    assert verdict.status == "FAIL"
    assert cell_of(verdict, "s").status == "FAIL"
    assert "coverage cannot tell them apart" in verdict.claims[0].sentence
