"""A plan as text for a person. Pure."""

from k3bundle.canonical import plan_sha256
from k3bundle.plan import CellPlan, Plan
from k3runner.visible import visible
from k3runner.wording import cell_phrase, percent

__all__ = ["plan_table"]


def plan_table(plan: Plan) -> str:
    """Return a plan as aligned text: boots, cells with reasons of skipped ones, gates, digest."""
    lines = [
        f"Tier {plan.tier}, subject {visible(plan.subject)}, {_pairing(plan)}",
        "",
        "Boots in order",
        *(f"  {line}" for line in _boots(plan)),
        "",
        "Cells, each in every boot",
        *(f"  {line}" for line in _cells(plan.cells)),
        "",
        "Gates",
        *(f"  {line}" for line in _gates(plan)),
        "",
        "What this run cannot show",
        *(f"  - {visible(limit)}" for limit in plan.limits),
        "",
        f"Plan digest {plan_sha256(plan)}",
    ]
    return "\n".join(lines)


def _pairing(plan: Plan) -> str:
    if plan.pairing == "single":
        return "one existing server: nothing is compared"
    return "paired boots"


def _boots(plan: Plan) -> list[str]:
    backends = {arm.name: arm.decode_backend for arm in plan.arms}
    return [
        f"{boot.slot}  {boot.arm:<9}  backend {visible(backends[boot.arm])}, pair {boot.pair}"
        for boot in plan.boots
    ]


def _cells(cells: tuple[CellPlan, ...]) -> list[str]:
    width = max(len(cell.cell_id) for cell in cells)
    return [f"{cell.cell_id:<{width}}  {cell.kind:<7}  {cell_phrase(cell)}" for cell in cells]


def _gates(plan: Plan) -> list[str]:
    gates = plan.gates
    speed = (
        f"lower bound of candidate/baseline throughput above {gates.minimum_speed_ratio}"
        if gates.claims_speed
        else "not claimed by this tier"
    )
    return [
        f"decode steps on the expected path   at least {percent(gates.minimum_decode_coverage)}",
        f"log-probability difference          at most {gates.logprob_tolerance_nats} nats",
        f"tie margin                          {gates.tie_margin_nats} nats",
        f"decided positions                   at least {percent(gates.minimum_decided_share)}",
        f"failed requests                     at most {percent(gates.maximum_error_rate)}",
        f"prefix cache hits                   at most {percent(gates.maximum_prefix_hit_rate)}",
        f"speed                               {speed}",
    ]
