"""The tiers that the runner ships are those that a verifier takes for the standard."""

import pytest

from k3bundle.plan import TierName
from k3bundle.standard_gates import STANDARD
from k3runner.tiers.loading import load_tier, shipped_tiers


def test_every_tier_that_serves_has_a_standard() -> None:
    assert {name for name in shipped_tiers() if name != "kernels"} == set(STANDARD)


@pytest.mark.parametrize("name", sorted(STANDARD))
def test_a_shipped_tier_has_the_gates_and_boots_of_its_standard(name: TierName) -> None:
    tier, standard = load_tier(name), STANDARD[name]
    ways = {"drift_adjusted"}
    assert tier.gates.model_dump(exclude=ways) == standard.gates.model_dump(exclude=ways)
    assert len(tier.boot_order) // 2 == standard.pairs
    assert tier.null_pairs == standard.null_pairs
