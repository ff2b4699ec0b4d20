import subprocess
from dataclasses import replace
from pathlib import Path

from k3bundle.plan import Deployment
from k3runner.engine_command import EngineCommand, engine_command, public_command
from k3runner.engine_tools import write_engine_tools
from k3runner.subjects import load_subject

INHERITED = {
    "PATH": "/home/alice/bin",
    "HOME": "/home/alice",
    "PYTHONPATH": "/home/alice/patched",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LD_PRELOAD": "x.so",
    "VLLM_ATTENTION_BACKEND": "FAST",
    "HF_TOKEN": "hf_secret",
}


def command(
    arm: int, overlay: Path | None = None, deployment: Deployment | None = None
) -> EngineCommand:
    subject = load_subject("k3-tiny")
    return engine_command(
        subject=subject,
        deployment=deployment or Deployment(name="default"),
        arm=replace(subject.arms[arm], overlay=overlay),
        engine_python=Path("/env/bin/python"),
        model_folder=Path("/model"),
        port=8123,
        inherited=INHERITED,
        tools=Path("/run/tools"),
    )


def test_engine_command_inherits_only_what_is_allowed() -> None:
    environment = command(0).environment
    assert environment["HOME"] == "/home/alice"
    assert environment["PATH"] == "/env/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/tools"
    for name in INHERITED.keys() - {"HOME", "PATH"}:
        assert name not in environment


def test_engine_command_arms_differ_only_in_their_arguments() -> None:
    baseline, candidate = command(0), command(1)
    assert baseline.environment == candidate.environment
    different = [
        (one, other)
        for one, other in zip(baseline.argv, candidate.argv, strict=True)
        if one != other
    ]
    assert different == [
        (
            '{"k3decode": {"decode_backend": "stock"}}',
            '{"k3decode": {"decode_backend": "candidate"}}',
        )
    ]


def test_engine_command_overlay_is_on_the_path_of_its_arm_only() -> None:
    assert command(1, Path("/overlay")).environment["PYTHONPATH"] == "/overlay"
    assert "PYTHONPATH" not in command(0).environment


def test_engine_command_listens_on_loopback() -> None:
    argv = command(0).argv
    assert argv[argv.index("--host") + 1] == "127.0.0.1"


def test_public_command_names_no_place() -> None:
    places = {"/env/bin/python": "<engine-python>", "/model": "<model>", "8123": "<port>"}
    public = public_command(command(0).argv, places)
    assert public[0] == "<engine-python>"
    assert public[public.index("--port") + 1] == "<port>"
    assert "/model" not in public


def test_write_engine_tools_stands_in_for_a_uv_that_lists_nothing(tmp_path: Path) -> None:
    tools = write_engine_tools(tmp_path)
    done = subprocess.run(
        ["uv", "pip", "list", "--format=freeze"],
        env={"PATH": f"/nowhere:{tools}"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b""


def test_engine_command_a_deployment_is_the_same_for_both_arms_and_before_the_arm() -> None:
    deployment = Deployment(
        name="tp2", engine_arguments=("--tensor-parallel-size", "2"), environment={"NCCL_X": "1"}
    )
    for arm in (0, 1):
        found = command(arm, deployment=deployment)
        own = load_subject("k3-tiny").arms[arm].spec.engine_arguments
        assert found.argv[-len(own) - 2 :] == ("--tensor-parallel-size", "2", *own)
        assert found.environment["NCCL_X"] == "1"
