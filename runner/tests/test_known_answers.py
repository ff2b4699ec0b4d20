"""Runs whose answer is known, on the scriptable server; `make known-answers` has them on vLLM."""

import base64
import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

from k3runner.settings import RunConfig
from k3runner.subjects import load_subject
from k3runner_testing.measurements.known_answers import (
    CASES,
    Case,
    evaluate,
    small_config,
    write_subjects,
)
from k3runner_testing.run_case import fake_config

FAST = {"ttft_s": 0.01, "itl_s": 0.003}
SLOW = {"ttft_s": 0.02, "itl_s": 0.006}


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def with_same_arms(config: RunConfig) -> RunConfig:
    candidate = config.subject.arms[1]
    baseline = replace(candidate, spec=candidate.spec.model_copy(update={"name": "baseline"}))
    return replace(config, subject=replace(config.subject, arms=(baseline, candidate)))


def test_a_candidate_at_half_the_speed_is_a_fail_in_a_sealed_bundle(tmp_path: Path) -> None:
    case = case_of("slowed")
    config = small_config(fake_config(tmp_path, baseline=FAST, candidate=SLOW), case.blocks)
    found = evaluate(config, case, lambda _event: None)
    assert found["holds"], found["sentence"]
    assert found["verify"]["sound"]
    assert "".join(boot[0] for boot in found["boots"]) == "bccbcbbc"
    for intervals in found["intervals"].values():
        rate = next(one for one in intervals if one["metric"] == "output_tokens_per_s")
        # A machine that does other work adds to both arms.
        assert 0.4 < rate["ratio"] < 0.9
        assert rate["upper"] < 1
    assert all(
        found["claims"][name].startswith("PASS") for name in ("isolated", "bounded", "correct")
    )


def test_equal_arms_are_never_a_fail_nor_a_pass(tmp_path: Path) -> None:
    config = small_config(with_same_arms(fake_config(tmp_path)))
    found = evaluate(config, case_of("same"), lambda _event: None)
    assert found["holds"], found["sentence"]
    assert found["verdict"] in {"INCOMPLETE", "INVALID"}
    assert "Both arms are started the same way" in found["claims"]["faster"]


def test_the_subjects_differ_in_what_their_case_is_about(tmp_path: Path) -> None:
    found = {name: load_subject(str(path)) for name, path in write_subjects(tmp_path).items()}
    assert found.keys() == {case.name for case in CASES}
    same, shipped, slowed = (
        [arm.spec for arm in found[name].arms] for name in ("same", "shipped", "slowed")
    )
    assert same[0] == same[1].model_copy(update={"name": "baseline"})
    assert shipped[0] == slowed[0]
    assert slowed[1] == shipped[1].model_copy(update={"overlay_sha256": slowed[1].overlay_sha256})
    assert slowed[1].overlay_sha256 is not None


def test_the_wheel_of_the_slow_plugin_is_the_same_every_time(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        write_subjects(tmp_path / name)
        (wheel,) = (tmp_path / name).glob("*.whl")
        digests.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read("k3_slow_steps.py")
            recorded = archive.read("k3_slow_steps-1.0.dist-info/RECORD").decode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert f"k3_slow_steps.py,sha256={digest},{len(content)}" in recorded
    assert digests[0] == digests[1]
