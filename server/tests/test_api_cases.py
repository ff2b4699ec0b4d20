"""Made-up requests: nothing is a 5xx, and every answer is as the description says."""

from pathlib import Path

from k3server_testing.probes.api_cases import run_cases

DESCRIPTION = Path(__file__).parents[1] / "openapi.json"


def test_made_up_requests_get_what_the_description_says(tmp_path: Path) -> None:
    found = run_cases(
        tmp_path / "data", DESCRIPTION, cases=60, examples=2, seed=20261130, phases="fuzzing"
    )
    assert found.failures == ()
    assert found.server_errors == 0
    # The registry itself counted at least as many answers, good ones and refusals.
    assert sum(found.statuses.values()) >= found.cases >= 60
    assert {"200", "422", "401", "404"} <= set(found.statuses)
