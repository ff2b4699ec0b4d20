"""The gates that the standard evaluation's tiers ship with, and in what a plan is looser.

A plan carries its own gates, so an honest-looking PASS may rest on a threshold that nobody would
accept. A verifier cannot know every plan; it knows these, and says where a plan asks for less.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from k3bundle.gates import Gates
from k3bundle.plan import KernelCell, Plan, ServingCell, TierName

__all__ = ["KERNEL_GROUPS", "STANDARD", "StandardTier", "looser_than_standard"]


@dataclass(frozen=True)
class StandardTier:
    """What a plan of a tier asks for at least."""

    gates: Gates
    """Its gates."""
    pairs: int
    """Pairs of arms of each deployment."""
    null_pairs: int
    """A-A pairs of each deployment."""


_SMOKE: Final = Gates(
    minimum_decode_coverage=0.95,
    logprob_tolerance_nats=1e-3,
    tie_margin_nats=2e-3,
    minimum_decided_share=0.9,
    maximum_error_rate=0.01,
    maximum_prefix_hit_rate=0.01,
    claims_speed=False,
    minimum_speed_ratio=1.0,
    confidence=0.95,
)
_SPEED: Final = Gates(
    minimum_decode_coverage=0.95,
    logprob_tolerance_nats=0.05,
    tie_margin_nats=0.1,
    minimum_decided_share=0.5,
    maximum_error_rate=0.0,
    maximum_prefix_hit_rate=0.01,
    claims_speed=True,
    minimum_speed_ratio=1.0,
    confidence=0.95,
    non_inferiority_margin=0.01,
    null_tolerance=0.005,
    maximum_client_lag_ms=5.0,
    maximum_client_cpu_share=0.85,
    maximum_concurrency_shortfall=0.05,
    require_telemetry=True,
    maximum_telemetry_gap_ms=2000.0,
    maximum_throttled_share=0.05,
)

STANDARD: Final[dict[TierName, StandardTier]] = {
    "smoke": StandardTier(_SMOKE, pairs=2, null_pairs=0),
    "quick": StandardTier(_SPEED, pairs=2, null_pairs=0),
    "standard": StandardTier(_SPEED, pairs=4, null_pairs=1),
    "full": StandardTier(_SPEED, pairs=8, null_pairs=2),
}
"""Tier -> what its plans ask for at least; `kernels` serves nothing."""

KERNEL_GROUPS: Final = ("smoke", "corner", "production")
"""Groups of cases that the kernels tier asks for of every op."""

_Direction = Literal["least", "most"]
_LIMITS: Final[dict[str, _Direction]] = {
    "minimum_decode_coverage": "least",
    "logprob_tolerance_nats": "most",
    "tie_margin_nats": "most",
    "minimum_decided_share": "least",
    "maximum_error_rate": "most",
    "maximum_prefix_hit_rate": "most",
    "minimum_speed_ratio": "least",
    "confidence": "least",
    "non_inferiority_margin": "most",
    "null_tolerance": "most",
    "maximum_client_lag_ms": "most",
    "maximum_client_cpu_share": "most",
    "maximum_concurrency_shortfall": "most",
    "maximum_telemetry_gap_ms": "most",
    "maximum_throttled_share": "most",
    "require_telemetry": "least",
}
"""Gate -> whether a plan may not go below it or above it."""


def looser_than_standard(plan: Plan) -> tuple[str, ...]:
    """Say in what a plan asks for less than its tier does.

    Returns:
        Phrases such as `maximum_error_rate is 0.5 instead of 0.01`; empty for a plan that is as
        strict as its tier, or stricter.
    """
    if plan.tier == "kernels":
        return tuple(_package(plan))
    standard = STANDARD.get(plan.tier)
    if standard is None:
        return ()
    return (*_gates(plan, standard.gates), *_margins(plan, standard.gates), *_boots(plan, standard))


def _gates(plan: Plan, standard: Gates) -> Iterator[str]:
    for name, direction in _LIMITS.items():
        wanted, found = getattr(standard, name), getattr(plan.gates, name)
        if wanted is None:
            continue
        if found is None:
            yield f"{name} is open instead of {wanted:g}"
        elif found < wanted if direction == "least" else found > wanted:
            yield f"{name} is {found:g} instead of {wanted:g}"


def _margins(plan: Plan, standard: Gates) -> Iterator[str]:
    for cell in plan.cells:
        if not isinstance(cell, ServingCell) or cell.speed.kind != "non_inferiority":
            continue
        margin = cell.speed.margin
        # A trace is a load of somebody's own, beside the cells of the tier and not in their place.
        if not cell.expects_fallback and cell.traffic.kind != "trace":
            yield f"{cell.cell_id} need not be faster, although the candidate's path serves it"
        if margin is not None and margin > standard.non_inferiority_margin:
            wanted = standard.non_inferiority_margin
            yield f"the margin of {cell.cell_id} is {margin:g} instead of {wanted:g}"


def _package(plan: Plan) -> Iterator[str]:
    """What a plan of a kernel package does not ask for."""
    cells = [cell for cell in plan.cells if isinstance(cell, KernelCell)]
    for task in ("check", "audit", "bench"):
        if all(cell.task != task for cell in cells):
            yield f"no {task} is planned"
    checked = {op for cell in cells if cell.task == "check" for op in cell.ops}
    for cell in cells:
        if cell.task == "check":
            missing = [group for group in KERNEL_GROUPS if group not in cell.groups]
            if missing:
                yield f"{cell.cell_id} does not ask for {missing[0]} cases"
        elif cell.task == "bench" and not set(cell.ops) <= checked:
            yield f"{cell.cell_id} times ops that no check asks for"


def _boots(plan: Plan, standard: StandardTier) -> Iterator[str]:
    if plan.pairing == "single":
        return
    for name in sorted({boot.deployment for boot in plan.boots}):
        roles = [boot.role for boot in plan.boots if boot.deployment == name]
        pairs, null_pairs = roles.count("compare") // 2, roles.count("null") // 2
        if pairs < standard.pairs:
            yield f"deployment {name} has {pairs} pairs instead of {standard.pairs}"
        if null_pairs < standard.null_pairs:
            yield f"deployment {name} has {null_pairs} null pairs instead of {standard.null_pairs}"
