"""What would else show itself after the load is found before it."""

from pathlib import Path

import pytest

from k3runner.doctor.accelerator_facts import AcceleratorsFacts
from k3runner.doctor.accelerator_judgement import judge_accelerators
from k3runner.doctor.accelerator_probe import MachinePlaces, probe_accelerators
from k3runner.doctor.check import Check
from k3runner.telemetry.nvml import GpuReader, open_gpus
from k3runner_testing.fake_nvml import FakeGpu, FakeNvml, fake_fabric

ENGINE = (13, 0)


def node(count: int = 4, *, state: int = 3, health: int = 1, cluster: int = 7) -> list[FakeGpu]:
    return [FakeGpu(fabric=fake_fabric(state, health, cluster)) for _ in range(count)]


def found(root: Path, *gpus: FakeGpu, cuda: int = 13_000) -> AcceleratorsFacts:
    reader = open_gpus(None, FakeNvml(*gpus, cuda=cuda))
    assert isinstance(reader, GpuReader)
    return probe_accelerators(reader, MachinePlaces(root))


def channel(root: Path) -> None:
    folder = root / "dev/nvidia-caps-imex-channels"
    folder.mkdir(parents=True)
    (folder / "channel0").touch()


def port(root: Path, name: str, text: str) -> None:
    folder = root / "sys/class/infiniband" / name / "ports/1"
    folder.mkdir(parents=True)
    (folder / "state").write_text(text, "utf-8")


def check(facts: AcceleratorsFacts, name: str, engine: tuple[int, int] | None = ENGINE) -> Check:
    return next(one for one in judge_accelerators(facts, engine) if one.name == name)


def test_a_ready_node_is_ok_throughout(tmp_path: Path) -> None:
    channel(tmp_path)
    port(tmp_path, "mlx5_0", "4: ACTIVE\n")
    checks = judge_accelerators(found(tmp_path, *node()), ENGINE)
    assert {one.outcome for one in checks} == {"ok"}
    assert [one.name for one in checks] == ["driver", "accelerator", "fabric", "imex", "network"]


def test_b38_a_driver_that_is_too_old_for_the_engine_is_a_problem(tmp_path: Path) -> None:
    judged = check(found(tmp_path, *node(), cuda=12_080), "driver")
    assert judged.outcome == "problem"
    assert "serves CUDA 12.8" in judged.sentence
    assert "CUDA 13.0" in judged.sentence
    assert "newer driver" in judged.remedy


def test_a_compatibility_library_makes_it_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "usr/local/cuda/compat"
    folder.mkdir(parents=True)
    (folder / "libcuda.so.1").touch()
    assert check(found(tmp_path, *node(), cuda=12_080), "driver").outcome == "warning"


def test_an_older_minor_version_of_the_driver_is_a_warning(tmp_path: Path) -> None:
    judged = check(found(tmp_path, *node(), cuda=13_000), "driver", (13, 1))
    assert judged.outcome == "warning"


def test_what_is_not_known_is_not_called_good(tmp_path: Path) -> None:
    judged = check(found(tmp_path, *node()), "driver", None)
    assert judged.outcome == "warning"
    assert "were not compared" in judged.sentence


@pytest.mark.parametrize(
    ("capability", "engine", "outcome"),
    [
        ((10, 3), (12, 9), "problem"),
        ((10, 3), (13, 0), "ok"),
        ((10, 0), (12, 6), "problem"),
        ((9, 0), (12, 4), "ok"),
    ],
)
def test_b38_an_engine_that_is_too_old_for_the_accelerator_is_a_problem(
    tmp_path: Path, capability: tuple[int, int], engine: tuple[int, int], outcome: str
) -> None:
    gpu = FakeGpu(capability=capability, fabric=fake_fabric())
    assert check(found(tmp_path, gpu), "accelerator", engine).outcome == outcome


def test_different_accelerators_are_a_warning(tmp_path: Path) -> None:
    pair = FakeGpu(name="NVIDIA H200", capability=(9, 0)), FakeGpu()
    judged = check(found(tmp_path, *pair), "accelerator")
    assert (judged.outcome, "NVIDIA GB300, NVIDIA H200" in judged.sentence) == ("warning", True)


@pytest.mark.parametrize(("state", "words"), [(1, "not started"), (2, "in progress")])
def test_b39_a_fabric_that_is_not_ready_is_a_problem(
    tmp_path: Path, state: int, words: str
) -> None:
    judged = check(found(tmp_path, *node(3), *node(1, state=state)), "fabric")
    assert judged.outcome == "problem"
    assert words in judged.sentence
    assert "1 of 4" in judged.sentence


def test_b39_an_unhealthy_fabric_is_a_problem(tmp_path: Path) -> None:
    assert check(found(tmp_path, *node(2, health=2)), "fabric").outcome == "problem"


def test_b39_a_node_in_two_clusters_is_a_problem(tmp_path: Path) -> None:
    judged = check(found(tmp_path, *node(2), *node(2, cluster=8)), "fabric")
    assert (judged.outcome, "2 fabric clusters" in judged.sentence) == ("problem", True)


def test_one_accelerator_needs_no_fabric(tmp_path: Path) -> None:
    assert check(found(tmp_path, *node(1, state=2)), "fabric").outcome == "ok"


def test_a_driver_that_says_nothing_of_the_fabric_is_a_warning(tmp_path: Path) -> None:
    facts = found(tmp_path, FakeGpu(), FakeGpu())
    assert facts.accelerators[0].fabric == "unread"
    assert check(facts, "fabric").outcome == "warning"


def test_b39_no_imex_channel_in_a_domain_of_several_nodes_is_a_warning(tmp_path: Path) -> None:
    judged = check(found(tmp_path, *node()), "imex")
    assert judged.outcome == "warning"
    assert "/dev/nvidia-caps-imex-channels" in judged.remedy
    assert check(found(tmp_path, *node(cluster=0)), "imex").outcome == "ok"


def test_a_port_that_is_down_is_named(tmp_path: Path) -> None:
    port(tmp_path, "mlx5_0", "4: ACTIVE\n")
    port(tmp_path, "mlx5_1", "1: DOWN\n")
    judged = check(found(tmp_path, *node()), "network")
    assert judged.outcome == "warning"
    assert "mlx5_1/1" in judged.sentence
    assert "mlx5_0" not in judged.sentence


def test_the_cluster_is_told_apart_and_not_named(tmp_path: Path) -> None:
    one, two = found(tmp_path, *node(1), *node(1, cluster=8)).accelerators
    assert one.cluster != two.cluster
    assert "07" * 16 not in str(one)
