"""Decides everything before the first boot. Pure: tier, subject and node in, plan out."""

from typing import Literal

from k3bundle.environment import NodeFacts
from k3bundle.plan import BootSlot, CellPlan, Plan, SkippedCell
from k3bundle.subject import ArmSpec
from k3runner.subjects.definition import Subject
from k3runner.tiers.loading import Tier

__all__ = ["EXTERNAL_SUBJECT", "Pairing", "build_plan"]

Pairing = Literal["paired", "single"]

EXTERNAL_SUBJECT = "existing server"
"""Name of the subject where a server is evaluated that the runner did not start."""
_SINGLE_LIMIT = (
    "One existing server was measured: there is no second arm, so nothing is compared and no "
    "claim is made."
)
_EXTERNAL_ARM = ArmSpec(
    name="candidate",
    decode_backend="as started by its owner",
    expected_path="unknown",
    engine_arguments=(),
    environment={},
    overlay_sha256=None,
)


def build_plan(tier: Tier, subject: Subject, node: NodeFacts, pairing: Pairing) -> Plan:
    """Builds the plan of a run.

    Args:
        tier: Cells, boot order and gates.
        subject: The engine and its arms.
        node: The machine; a cell that it cannot run becomes a skipped cell with the reason.
        pairing: `paired` boots both arms; `single` uses one server that already runs.

    Returns:
        The plan. Equal arguments give equal plans, byte for byte.
    """
    paired = pairing == "paired"
    order = tier.boot_order if paired else ("candidate",)
    return Plan(
        tier=tier.name,
        subject=subject.name if paired else EXTERNAL_SUBJECT,
        pairing=pairing,
        arms=tuple(arm.spec for arm in subject.arms) if paired else (_EXTERNAL_ARM,),
        allowed_config_differences=subject.allowed_config_differences if paired else (),
        cells=tuple(_fit_to_node(cell, node) for cell in tier.cells),
        boots=tuple(BootSlot(slot=slot, arm=arm, pair=slot // 2) for slot, arm in enumerate(order)),
        gates=tier.gates,
        limits=tier.limits if paired else (*tier.limits, _SINGLE_LIMIT),
    )


def _fit_to_node(cell: CellPlan, node: NodeFacts) -> CellPlan:
    """Skips what would measure the load client instead of the engine."""
    if cell.kind != "serving" or node.gpus or cell.concurrency <= 32 * node.cpu_count:
        return cell
    return SkippedCell(
        cell_id=cell.cell_id,
        reason=(
            f"{cell.concurrency} streams on {node.cpu_count} CPUs without a GPU would measure "
            "the load client."
        ),
    )
