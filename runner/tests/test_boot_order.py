"""Which boots a plan makes, in which order."""

import pytest

from k3runner.boot_order import blocks, boot_slots


def _letters(arms: tuple[str, ...]) -> str:
    return "".join("A" if arm == "baseline" else "B" for arm in arms)


@pytest.mark.parametrize(("count", "order"), [(1, "ABBA"), (2, "ABBABAAB"), (3, "ABBABAABABBA")])
def test_blocks_alternate(count: int, order: str) -> None:
    assert _letters(blocks(count)) == order


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_steady_drift_cancels_between_the_arms(count: int) -> None:
    places = list(enumerate(_letters(blocks(count))))
    assert sum(n for n, arm in places if arm == "A") == sum(n for n, arm in places if arm == "B")


def test_null_pairs_come_first_and_each_deployment_stands_together() -> None:
    slots = boot_slots(["x", "y"], blocks(1), null_pairs=1)
    assert [slot.slot for slot in slots] == list(range(12))
    assert [slot.pair for slot in slots] == [n // 2 for n in range(12)]
    assert "".join(slot.deployment for slot in slots) == "x" * 6 + "y" * 6
    assert [slot.role for slot in slots[:6]] == ["null"] * 2 + ["compare"] * 4
    assert _letters(tuple(slot.arm for slot in slots)) == "AAABBA" * 2
