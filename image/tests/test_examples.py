"""The examples for Slurm, Kubernetes and Compose: linted, and closed as a launcher should be."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from k3image.inputs import read_inputs
from k3runner.cli import run_command_line

DIGEST = "sha256:" + "a" * 64
CLUSTER = ("kubernetes.yaml", "kubernetes-several-nodes.yaml")


def _documents(root: Path, name: str) -> list[dict[str, Any]]:
    text = (root / "image" / "examples" / name).read_text()
    for variable, value in (
        ("${K3EVAL_IMAGE}", f"registry.example.org/k3-eval@{DIGEST}"),
        ("${K3EVAL_IMAGE_DIGEST}", DIGEST),
    ):
        text = text.replace(variable, value)
    assert "${" not in text
    return list(yaml.safe_load_all(text))


def _pods(value: Any) -> Iterator[dict[str, Any]]:
    """Every pod that a document would start."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        for inside in value.values():
            yield from _pods(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _pods(inside)


@pytest.mark.parametrize("name", CLUSTER)
def test_every_pod_is_closed_and_of_an_image_by_digest(root: Path, name: str) -> None:
    pods = [pod for document in _documents(root, name) for pod in _pods(document)]
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        volumes = {one["name"] for one in pod["volumes"]}
        for container in pod["containers"]:
            assert container["image"].endswith(f"@{DIGEST}")
            own = container["securityContext"]
            assert own["readOnlyRootFilesystem"] is True
            assert own["allowPrivilegeEscalation"] is False
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes


@pytest.mark.parametrize("name", CLUSTER)
def test_an_evaluation_has_results_and_says_which_image_it_is(root: Path, name: str) -> None:
    job = next(one for one in _documents(root, name) if one["kind"] == "Job")
    (pod,) = _pods(job)
    (container,) = pod["containers"]
    assert {"name": "K3EVAL_IMAGE_DIGEST", "value": DIGEST} in container["env"]
    places = {mount["mountPath"].strip("/") for mount in container["volumeMounts"]}
    assert {"results", "tmp"} <= places
    # Started again it would be another run under the same name.
    assert (job["spec"]["backoffLimit"], pod["restartPolicy"]) == (0, "Never")


@pytest.mark.parametrize("name", CLUSTER)
def test_the_flags_of_an_evaluation_exist(
    root: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["run", "--help"]) == 0
    shown = capsys.readouterr().out
    job = next(one for one in _documents(root, name) if one["kind"] == "Job")
    (pod,) = _pods(job)
    flags = [word.split("=")[0] for word in pod["containers"][0]["args"] if word.startswith("--")]
    assert flags
    assert [flag for flag in flags if flag not in shown] == []


def test_the_engine_of_several_nodes_has_a_channel_of_its_domain(root: Path) -> None:
    domain, group, service, job = _documents(root, "kubernetes-several-nodes.yaml")
    assert (domain["kind"], group["kind"]) == ("ComputeDomain", "LeaderWorkerSet")
    assert domain["spec"]["numNodes"] == group["spec"]["leaderWorkerTemplate"]["size"]
    (pod,) = _pods(group)
    (claim,) = pod["resourceClaims"]
    template = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    assert claim["resourceClaimTemplateName"] == template
    (container,) = pod["containers"]
    assert container["resources"]["claims"] == [{"name": claim["name"]}]
    gpus = domain["spec"]["numNodes"] * int(container["resources"]["limits"]["nvidia.com/gpu"])
    assert f"--tensor-parallel-size {gpus} " in container["command"][2]
    port = service["spec"]["ports"][0]["port"]
    address = f"http://{service['metadata']['name']}:{port}"
    (evaluation,) = _pods(job)
    assert f"--engine-url={address}" in evaluation["containers"][0]["args"]
    assert f"--port={port}" in container["command"][2]


def test_the_slurm_script_starts_the_image_closed_and_passes_arguments_on(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "srun").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "K3EVAL_IMAGE": "/images/x.sqsh",
        "K3EVAL_IMAGE_DIGEST": DIGEST,
        "MODEL": "/models/k3",
        "RESULTS": str(tmp_path / "results"),
        "CACHE": str(tmp_path / "cache"),
    }
    script = root / "image" / "examples" / "slurm.sbatch"
    started = subprocess.run(
        ["bash", script, "--tier", "quick"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert started[-2:] == ["--tier", "quick"]
    assert "--container-readonly" in started
    assert any(
        word.startswith(f"--container-mounts={tmp_path}/results:/results,") for word in started
    )
    for name in ("K3EVAL_IMAGE", "K3EVAL_IMAGE_DIGEST", "MODEL"):
        less = {key: value for key, value in environment.items() if key != name}
        refused = subprocess.run(
            ["bash", script], env=less, capture_output=True, text=True, check=False
        )
        assert refused.returncode != 0
        assert f"{name}: set it to" in refused.stderr


def test_compose_starts_images_of_this_repository_alone_and_holds_no_secret(root: Path) -> None:
    text = (root / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    flavours = {one.name for one in read_inputs(root / "image" / "inputs.toml").flavours}
    for name, service in services.items():
        place, _, flavour = service["image"].partition(":")
        assert (place, flavour in flavours) == ("localhost/k3-eval", True), name
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "healthcheck" in service or name == "smoke"
        for variable, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|SECRET|KEY", variable):
                assert value.startswith("${K3EVAL_"), f"{name}: {variable}"


def test_the_examples_are_linted(root: Path) -> None:
    lint = (root / "Makefile").read_text().split("\nlint:")[1].split("\n\n")[0]
    examples = root / "image" / "examples"
    for path in sorted(examples.iterdir()):
        assert f"image/examples/{path.name}" in lint
    tool = shutil.which("bash")
    assert tool is not None
    subprocess.run([tool, "-n", examples / "slurm.sbatch"], check=True)
