"""Bundles that are sealed rightly and whose plan contradicts itself or cannot be believed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from k3bundle import layout
from k3bundle.canonical import plan_sha256
from k3bundle.gates import Gates
from k3bundle.plan import BootSlot, FeatureCell, Plan, ServingCell
from k3bundle.subject import ArmName
from k3bundle.traffic import TraceEntry, TraceReplay
from k3bundle_testing.defect import Defect, Files, changed, resealed_records
from k3bundle_testing.example_run import good_records

__all__ = ["PLAN_DEFECTS", "speed_gates"]


def speed_gates(gates: Gates) -> Gates:
    """Gates of a plan that claims speed, with all limits that such a plan needs."""
    return changed(
        gates,
        claims_speed=True,
        maximum_client_lag_ms=20.0,
        maximum_client_cpu_share=0.85,
        maximum_concurrency_shortfall=0.05,
    )


def _plan(change: Callable[[Plan], Plan]) -> Callable[[], Files]:
    """Change the plan and its digest, so that only the plan itself is wrong."""

    def make() -> Files:
        good = good_records()
        plan = change(good.plan)
        run = changed(good.run, plan_sha256=plan_sha256(plan))
        return resealed_records(replace(good, plan=plan, run=run))

    return make


def _claims_speed(plan: Plan) -> Plan:
    return changed(plan, gates=speed_gates(plan.gates))


def _quick(plan: Plan, **changes: Any) -> Plan:
    return changed(plan, tier="quick", gates=speed_gates(plan.gates), **changes)


def _slow_schema(plan: Plan) -> Plan:
    schema = {"type": "object", "properties": {"answer": {"pattern": "^(a+)+$"}}}
    cells = tuple(
        changed(cell, json_schema=schema)
        if isinstance(cell, FeatureCell) and cell.json_schema
        else cell
        for cell in plan.cells
    )
    return changed(plan, cells=cells)


def _cell_planned_twice(plan: Plan) -> Plan:
    return changed(plan, cells=(*plan.cells, plan.cells[0]))


def _boots(*fields: dict[str, Any]) -> Callable[[Plan], Plan]:
    """Change the boots one by one."""

    def change(plan: Plan) -> Plan:
        boots = [
            changed(boot, **(fields[i] if i < len(fields) else {}))
            for i, boot in enumerate(plan.boots)
        ]
        return changed(plan, boots=tuple(boots))

    return change


def _in_one_order(plan: Plan) -> Plan:
    # A-B-A-B: whatever drifts, drifts in favour of one arm.
    boots = (
        *plan.boots[:2],
        changed(plan.boots[2], arm="baseline"),
        changed(plan.boots[3], arm="candidate"),
    )
    return _quick(plan, boots=boots)


def _far_apart(plan: Plan) -> Plan:
    # A-A-B-B: the boots of a pair are not close in time.
    arms: tuple[ArmName, ...] = ("baseline", "baseline", "candidate", "candidate")
    boots = tuple(BootSlot(slot=slot, arm=arm, pair=slot % 2) for slot, arm in enumerate(arms))
    return _quick(plan, boots=boots)


def _half_a_block(plan: Plan) -> Plan:
    return _quick(plan, boots=plan.boots[:2])


def _open_gate(plan: Plan) -> Plan:
    quick = _quick(plan)
    return changed(quick, gates=changed(quick.gates, maximum_client_lag_ms=None))


def _serving(**fields: Any) -> Callable[[Plan], Plan]:
    """Change the serving cell."""

    def change(plan: Plan) -> Plan:
        cells = (
            changed(cell, **fields) if isinstance(cell, ServingCell) else cell
            for cell in plan.cells
        )
        return changed(plan, cells=tuple(cells))

    return change


def _eight_gpus(plan: Plan) -> Plan:
    """The machine of the example has none."""
    return changed(plan, deployments=(changed(plan.deployments[0], gpu_count=8),))


def _trace(*times_ns: int) -> TraceReplay:
    entries = tuple(TraceEntry(at_ns=at, prompt_tokens=16, output_tokens=8) for at in times_ns)
    return TraceReplay(file_sha256="7" * 64, entries=entries)


def _bad(name: str, change: Callable[[Plan], Plan]) -> Defect:
    return Defect(name, "records-inconsistent", layout.PLAN, _plan(change))


_NULL: Final = {"role": "null"}

PLAN_DEFECTS: Final = (
    _bad("plan_claims_speed_in_smoke", _claims_speed),
    _bad("plan_schema_with_slow_pattern", _slow_schema),
    _bad("plan_cell_twice", _cell_planned_twice),
    _bad("plan_boot_without_its_pair", _boots({"pair": 1})),
    _bad("plan_null_pair_of_both_arms", _boots(_NULL, _NULL)),
    _bad("plan_pair_of_two_roles", _boots(_NULL)),
    _bad("plan_boot_of_unknown_deployment", _boots({"deployment": "wide"})),
    _bad("plan_on_more_gpus_than_there_are", _eight_gpus),
    _bad("plan_cell_that_no_boot_runs", _serving(deployment="wide")),
    _bad("plan_speed_from_boots_in_one_order", _in_one_order),
    _bad("plan_speed_from_boots_far_apart", _far_apart),
    _bad("plan_speed_from_half_a_block", _half_a_block),
    _bad("plan_speed_with_an_open_client_gate", _open_gate),
    _bad("plan_must_be_faster_on_the_stock_path", _serving(expects_fallback=True)),
    _bad("plan_shares_whole_prompts", _serving(shared_prefix_tokens=16)),
    _bad("plan_trace_of_another_length", _serving(traffic=_trace(0, 1))),
    _bad("plan_trace_goes_back", _serving(traffic=_trace(0, 2, 1, 3))),
)
