"""What the machine is, with the GPUs that NVML shows."""

import pytest

from k3runner.node_facts import read_node_facts
from k3runner.telemetry.nvml import GpuReader, NvmlAbsent, open_gpus
from k3runner_testing.fake_nvml import FakeGpu, FakeNvml


def test_gpus_and_driver_come_from_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(FakeGpu(), FakeGpu(uuid="GPU-1"))

    def opened(_visible: str | None) -> GpuReader | NvmlAbsent:
        return open_gpus(None, fake)

    monkeypatch.setattr("k3runner.node_facts.open_gpus", opened)
    facts = read_node_facts(remarks=("one",))
    assert [(gpu.name, gpu.compute_capability) for gpu in facts.gpus] == [
        ("NVIDIA GB300", "10.3")
    ] * 2
    assert (facts.driver_version, facts.remarks, fake.open) == ("580.95.05", ("one",), 0)


def test_a_machine_without_gpus_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = NvmlAbsent("NVML shows no GPU.")
    monkeypatch.setattr("k3runner.node_facts.open_gpus", lambda _visible: absent)
    facts = read_node_facts()
    assert (facts.gpus, facts.driver_version) == ((), None)
