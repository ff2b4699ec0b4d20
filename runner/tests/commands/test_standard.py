"""A plan that asks for less than its tier does not read as one of it, in any command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from k3bundle.plan import TierName
from k3bundle_testing.example_plan import example_plan
from k3bundle_testing.sealing import sealed_archive

Run = Callable[..., Any]


def loosened(path: Path, tier: TierName = "standard") -> Path:
    plan = example_plan(tier=tier)
    gates = plan.gates.model_copy(update={"maximum_error_rate": 0.5})
    changed = plan.model_copy(update={"gates": gates})
    path.write_bytes(sealed_archive(tier=tier, plan=changed, candidate_speed=1.3))
    return path


def test_verify_says_whether_the_plan_is_one_of_its_tier(k3_eval: Run, tmp_path: Path) -> None:
    loose = str(loosened(tmp_path / "loose.k3b"))
    said = k3_eval("verify", loose)
    assert said.code == 0
    assert "standard not met: the plan asks for less than the standard tier" in said.stdout
    assert "maximum_error_rate is 0.5 instead of 0" in said.stdout
    assert "so this is no result of it" in said.stdout
    found = json.loads(k3_eval("verify", loose, "--json").stdout)
    assert (found["tier"], found["meets_standard"]) == ("standard", False)
    refused = k3_eval("verify", loose, "--standard")
    assert refused.code == 4
    assert "plan-digest-mismatch" in refused.stdout


def test_verify_standard_accepts_a_plan_of_its_tier_and_tier_asks_for_more(
    k3_eval: Run, bundle: Path
) -> None:
    strict = k3_eval("verify", str(bundle), "--standard", "--tier", "smoke")
    assert strict.code == 0
    assert "standard the plan asks for all that the smoke tier does" in strict.stdout
    assert json.loads(k3_eval("verify", str(bundle), "--json").stdout)["meets_standard"] is True
    assert k3_eval("verify", str(bundle), "--tier", "standard").code == 4
    assert "No tier `fast`" in k3_eval("verify", str(bundle), "--tier", "fast").stderr


def test_submit_of_a_plan_below_its_tier_sends_nothing(k3_eval: Run, tmp_path: Path) -> None:
    loose = str(loosened(tmp_path / "loose.k3b"))
    outcome = k3_eval("submit", loose, "--registry", "http://127.0.0.1:9")
    assert outcome.code == 4
    assert "maximum_error_rate is 0.5" in outcome.stderr


def test_report_of_a_plan_below_its_tier_says_so_before_the_verdict(
    k3_eval: Run, tmp_path: Path
) -> None:
    loose = str(loosened(tmp_path / "loose.k3b"))
    text = k3_eval("report", loose, "--markdown", "-").stdout
    assert text.startswith("## k3-eval standard, with less than the tier asks for: ")
    page = k3_eval("report", loose, "--html", "-").stdout
    assert "asks for less than the standard tier</li>" in page
