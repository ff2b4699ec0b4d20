"""A late step is compared with the same step in time; here its launches are plain torch."""

import json
from collections.abc import Sequence

import pytest

from k3decode import late_step
from k3decode.decode.batches import Batch
from k3decode.decode.executor import DecodeExecutor
from k3decode.decode.launches import PreparedLaunch
from k3decode.decode.whole_check import random_executor
from k3decode.late_step import check_late_step

from .decode.executor_on_cpu import CPU, DIMS, torch_ops

__all__ = ["torch_ops"]

BATCH = Batch(tokens=1, requests=2)


def _in_order(launches: Sequence[PreparedLaunch]) -> None:
    for launch in launches:
        launch.run()


@pytest.fixture
def executor(torch_ops: None) -> DecodeExecutor:
    del torch_ops
    # Three layers of KDA, the first one dense, and one of MLA.
    return random_executor(DIMS, layers=4, rows=BATCH.rows, context=200, seed=1, device=CPU)


def test_a_step_that_waits_gives_the_same_bits(executor: DecodeExecutor) -> None:
    record = check_late_step(executor, BATCH, 3, in_time=_in_order, late=_in_order)
    assert (record["outcome"], record["different"]) == ("passed", [])
    assert json.dumps(record, allow_nan=False)
    late_step._poison(executor)
    assert bool(executor.buffers.hidden.isnan().all())
    assert bool((executor.buffers.experts == 0).all())


def test_a_launch_before_its_producer_is_noticed(executor: DecodeExecutor) -> None:
    names = [launch.name for launch in executor.launches(BATCH)]
    unnoticed = []
    # Every seventh, in all parts of a layer; of all of them none went unnoticed either.
    for early in range(1, len(names), 7):

        def too_early(launches: Sequence[PreparedLaunch], early: int = early) -> None:
            order = list(launches)
            order[early - 1], order[early] = order[early], order[early - 1]
            _in_order(order)

        record = check_late_step(executor, BATCH, 3, in_time=_in_order, late=too_early)
        if record["outcome"] == "passed":
            unnoticed.append((names[early - 1], names[early]))
    assert unnoticed == []


def test_without_a_gpu_nothing_is_called_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SystemExit):
        late_step.main(["--commit", "abc"])
    assert "expected a CUDA device, found none" in capsys.readouterr().err
