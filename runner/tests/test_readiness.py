"""Before a load: accelerators that cannot be used are refused, doubtful ones are said."""

import sys
from pathlib import Path

import pytest

from k3runner.errors import MachineError
from k3runner.readiness import warnings_of_accelerators
from k3runner_testing.fake_nvml import FakeGpu, FakeNvml, fake_fabric

HERE = Path(sys.executable)


def test_b39_a_fabric_that_is_not_ready_is_refused_before_the_load() -> None:
    node = FakeNvml(FakeGpu(fabric=fake_fabric(2)), FakeGpu(fabric=fake_fabric(3)))
    with pytest.raises(MachineError) as refused:
        warnings_of_accelerators(HERE, node)
    assert "not ready on 1 of 2" in str(refused.value)


def test_what_is_doubtful_is_said_and_does_not_stop() -> None:
    node = FakeNvml(FakeGpu(fabric=fake_fabric(cluster=3)), FakeGpu(fabric=fake_fabric(cluster=3)))
    said = warnings_of_accelerators(HERE, node)
    assert any("no IMEX channel" in sentence for sentence in said)
    assert any("not compared" in sentence for sentence in said)


def test_a_machine_without_accelerators_has_nothing_to_say() -> None:
    assert warnings_of_accelerators(HERE, FakeNvml(start_error="no driver")) == ()
