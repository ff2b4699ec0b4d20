"""What a plan pairs with what, and whether the plan can be judged at all.

The plan comes out of a bundle, so it may be anything that its record type allows: a slot listed
twice could let one boot stand for both arms.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from k3bundle.derive.sentences import quote
from k3bundle.plan import BootSlot, Plan
from k3bundle.subject import ArmName, ArmSpec

__all__ = ["Pair", "arm", "pairs", "plan_problem", "slots"]


@dataclass(frozen=True)
class Pair:
    """One baseline and one candidate slot that were run close in time."""

    number: int
    baseline: BootSlot
    candidate: BootSlot


def slots(plan: Plan) -> tuple[BootSlot, ...]:
    """The slots in order; of several entries for one slot, the first."""
    by_number: dict[int, BootSlot] = {}
    for boot in plan.boots:
        by_number.setdefault(boot.slot, boot)
    return tuple(by_number[number] for number in sorted(by_number))


def pairs(plan: Plan) -> tuple[Pair, ...]:
    """The complete pairs, by number."""
    members: dict[int, list[BootSlot]] = {}
    for boot in slots(plan):
        members.setdefault(boot.pair, []).append(boot)
    found: list[Pair] = []
    for number in sorted(members):
        by_arm = {boot.arm: boot for boot in members[number]}
        if len(members[number]) == 2 and len(by_arm) == 2:  # noqa: PLR2004
            found.append(Pair(number, by_arm["baseline"], by_arm["candidate"]))
    return tuple(found)


def arm(plan: Plan, name: ArmName) -> ArmSpec | None:
    """The arm of that name; None when the plan does not define it."""
    return next((spec for spec in plan.arms if spec.name == name), None)


def plan_problem(plan: Plan) -> str | None:
    """Say why no run of this plan can be judged.

    Returns:
        The first problem in a sentence; None when there is none.
    """
    twice = _first_duplicate(str(boot.slot) for boot in plan.boots)
    if twice is not None:
        return f"The plan names boot {twice} twice, so it is unknown which arm it stands for."
    twice = _first_duplicate(cell.cell_id for cell in plan.cells)
    if twice is not None:
        return f"The plan has two cells named {twice}."
    twice = _first_duplicate(spec.name for spec in plan.arms)
    if twice is not None:
        return f"The plan defines the {twice} arm twice."
    for boot in plan.boots:
        if arm(plan, boot.arm) is None:
            return f"Boot {boot.slot} is of the {boot.arm} arm, which the plan does not define."
    return _pairing_problem(plan) if plan.pairing == "paired" else None


def _pairing_problem(plan: Plan) -> str | None:
    complete = {pair.number for pair in pairs(plan)}
    for boot in plan.boots:
        if boot.pair not in complete:
            return f"Pair {boot.pair} of the plan is not one baseline and one candidate boot."
    baseline, candidate = arm(plan, "baseline"), arm(plan, "candidate")
    if baseline and candidate and baseline.expected_path == candidate.expected_path:
        path = quote(baseline.expected_path)
        return f"Both arms of the plan expect the path {path}, so coverage cannot tell them apart."
    return None


def _first_duplicate(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)
