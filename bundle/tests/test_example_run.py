"""The example runs of all tiers tell possible stories, and the verdicts that they should."""

import pytest

from k3bundle.derive import derive
from k3bundle.plan import TierName
from k3bundle.verify import consistency_findings
from k3bundle_testing import good_records


@pytest.mark.parametrize("tier", ["smoke", "quick", "standard", "full"])
def test_the_example_of_a_tier_is_consistent_and_has_its_boots(tier: TierName) -> None:
    records = good_records(tier=tier)
    assert consistency_findings(records, None) == []
    boots = {"smoke": 4, "quick": 4, "standard": 10, "full": 20}
    assert len(records.plan.boots) == boots[tier]


@pytest.mark.parametrize("tier", ["quick", "standard", "full"])
@pytest.mark.parametrize(("speed", "status"), [(1.3, "PASS"), (1.0, "INCONCLUSIVE"), (0.5, "FAIL")])
def test_speed_decides_the_claim_of_a_tier_that_makes_it(
    tier: TierName, speed: float, status: str
) -> None:
    verdict = derive(good_records(tier=tier, candidate_speed=speed))
    assert verdict.claims[3].status == status
    assert verdict.status == status
    assert bool(verdict.regressions) == (status == "FAIL")
