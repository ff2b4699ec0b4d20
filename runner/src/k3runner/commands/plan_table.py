"""A plan as text for a person. Pure."""

from k3bundle.canonical import plan_sha256
from k3bundle.plan import CellPlan, Plan, ServingCell, SkippedCell
from k3bundle.speed_role import Excused, NonInferiority
from k3runner.plan_cost import PlanCost
from k3runner.visible import visible
from k3runner.wording import cell_phrase, digits, percent, plural, seconds

__all__ = ["plan_table"]


def plan_table(plan: Plan, cost: PlanCost) -> str:
    """Return a plan as aligned text.

    Boots, cells with their role for speed, skipped cells with reasons, gates, cost, digest.

    Args:
        plan: The plan.
        cost: Estimate of its cost.
    """
    lines = [
        f"Tier {plan.tier}, subject {visible(plan.subject)}, {_pairing(plan)}{_only(plan)}",
        "",
        "Boots in order",
        *(f"  {line}" for line in _boots(plan)),
        "",
        *_cells(plan),
        "Gates",
        *(f"  {line}" for line in _gates(plan)),
        "",
        "What this run cannot show",
        *(f"  - {visible(limit)}" for limit in plan.limits),
        "",
        _cost(cost, plan),
        f"Plan digest {plan_sha256(plan)}",
    ]
    return "\n".join(lines)


def _pairing(plan: Plan) -> str:
    if plan.pairing == "single":
        return "one existing server: nothing is compared"
    if plan.pairing == "package":
        return "a kernel package: no engine is booted"
    return "paired boots"


def _only(plan: Plan) -> str:
    only = plan.only_deployments
    return f", restricted to {', '.join(only)}: every verdict says so" if only else ""


def _boots(plan: Plan) -> list[str]:
    backends = {arm.name: arm.decode_backend for arm in plan.arms}
    width = len(str(len(plan.boots) - 1))
    lines = []
    for boot in plan.boots:
        role = "null pair" if boot.role == "null" else "pair"
        where = "" if len(plan.deployments) == 1 else f", deployment {boot.deployment}"
        lines.append(
            f"{boot.slot:>{width}}  {boot.arm:<9}  backend {visible(backends[boot.arm])}, "
            f"{role} {boot.pair}{where}"
        )
    return lines


def _cells(plan: Plan) -> list[str]:
    """The cells of each deployment, then those that are skipped."""
    width = max(len(cell.cell_id) for cell in plan.cells)
    lines: list[str] = []
    for deployment in plan.deployments:
        cells = [
            cell
            for cell in plan.cells
            if not isinstance(cell, SkippedCell) and cell.deployment == deployment.name
        ]
        if cells:
            of = "" if len(plan.deployments) == 1 else f" of deployment {deployment.name}"
            lines += [f"Cells, each in every boot{of}"]
            lines += [_cell_line(cell, plan, width) for cell in cells]
            lines += [""]
    skipped = [cell for cell in plan.cells if isinstance(cell, SkippedCell)]
    if skipped:
        lines += ["Skipped cells"]
        lines += [f"  {cell.cell_id:<{width}}  {visible(cell.reason)}" for cell in skipped]
        lines += [""]
    return lines


def _cell_line(cell: CellPlan, plan: Plan, width: int) -> str:
    line = f"  {cell.cell_id:<{width}}  {cell.kind:<7}  {cell_phrase(cell)}"
    if isinstance(cell, ServingCell) and plan.gates.claims_speed:
        return f"{line}; {_role(cell, plan)}"
    return line


def _role(cell: ServingCell, plan: Plan) -> str:
    if isinstance(cell.speed, Excused):
        return f"excused from being faster: {visible(cell.speed.reason)}"
    if isinstance(cell.speed, NonInferiority):
        margin = cell.speed.margin or plan.gates.non_inferiority_margin
        why = "stock serves it by plan, " if cell.expects_fallback else ""
        return f"{why}may lose at most {percent(margin)}"
    return "must be faster"


def _cost(cost: PlanCost, plan: Plan) -> str:
    gpus = f", {digits(cost.gpu_hours, 2)} GPU-hours" if cost.gpu_hours else ""
    how = "At most" if plan.pairing == "package" else "About"
    return (
        f"{how} {seconds(cost.wall_s)} in {plural(cost.boots, 'boot')}{gpus}; an estimate that "
        "nothing is judged by"
    )


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
