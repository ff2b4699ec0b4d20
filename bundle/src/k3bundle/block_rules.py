"""Rules for the boots of a plan: pairs, null pairs, and blocks in which a steady drift cancels."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from k3bundle.plan import BootSlot, Plan, SkippedCell

__all__ = ["block_problems"]

_PAIR = 2


def block_problems(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield (path in the plan, what was expected and found) for each broken rule."""
    yield from _deployment_problems(plan)
    if plan.pairing != "paired":
        nulls = [boot.slot for boot in plan.boots if boot.role == "null"]
        if nulls:
            yield (
                "$.boots",
                f"Expected no null pair in a {plan.pairing} plan, found slot {nulls[0]}.",
            )
        return
    members: dict[int, list[BootSlot]] = defaultdict(list)
    for boot in plan.boots:
        members[boot.pair].append(boot)
    whole = [pair for number in sorted(members) if (pair := members[number])]
    broken = [problem for pair in whole for problem in _pair_problems(pair)]
    yield from (("$.boots", problem) for problem in broken)
    if plan.gates.claims_speed and not broken:
        yield from (("$.boots", problem) for problem in _order_problems(whole))


def _deployment_problems(plan: Plan) -> Iterator[tuple[str, str]]:
    names = [deployment.name for deployment in plan.deployments]
    if len(set(names)) != len(names):
        yield "$.deployments", "Expected unique names of deployments, found one twice."
    for index, boot in enumerate(plan.boots):
        if boot.deployment not in names:
            yield f"$.boots[{index}]", f"Expected a planned deployment, found {boot.deployment}."
    only = plan.only_deployments
    for index, cell in enumerate(plan.cells):
        if only and cell.deployment not in only:
            why = f"Expected a cell of {' or '.join(only)}, found one of {cell.deployment}."
            yield f"$.cells[{index}]", why
    booted = {boot.deployment for boot in plan.boots if boot.role == "compare"}
    for index, cell in enumerate(plan.cells):
        if not isinstance(cell, SkippedCell) and cell.deployment not in booted:
            why = f"Expected a boot of deployment {cell.deployment}, found none."
            yield f"$.cells[{index}]", why


def _pair_problems(pair: Sequence[BootSlot]) -> Iterator[str]:
    number = pair[0].pair
    if len({boot.role for boot in pair}) > 1 or len({boot.deployment for boot in pair}) > 1:
        yield f"Expected one role and one deployment in pair {number}, found several."
        return
    arms = sorted(boot.arm for boot in pair)
    if pair[0].role == "null":
        if arms != ["baseline", "baseline"]:
            yield f"Expected two baseline boots in null pair {number}, found {', '.join(arms)}."
    elif arms != ["baseline", "candidate"]:
        yield f"Expected one boot of each arm in pair {number}, found {', '.join(arms)}."


def _order_problems(pairs: Sequence[Sequence[BootSlot]]) -> Iterator[str]:
    """Where a plan that claims speed does not measure a pair at once and in both orders."""
    orders: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for pair in pairs:
        first, second = sorted(pair, key=lambda boot: boot.slot)
        if second.slot - first.slot != 1:
            yield f"Expected neighbouring slots in pair {first.pair}, found others between them."
        if first.role == "compare":
            orders[first.deployment].append((first.slot, first.arm))
    for deployment, found in sorted(orders.items()):
        arms = [arm for _, arm in sorted(found)]
        if len(arms) % _PAIR:
            yield f"Expected whole A-B-B-A blocks of {deployment}, found {len(arms)} pairs."
            continue
        for block, (one, other) in enumerate(zip(arms[::2], arms[1::2], strict=True)):
            if one == other:
                yield (
                    f"Expected A-B-B-A or B-A-A-B in block {block} of {deployment}, found both "
                    f"pairs to begin with the {one}."
                )
