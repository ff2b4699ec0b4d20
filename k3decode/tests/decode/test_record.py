"""Recording a step: launches run in order, those of wanted ops are kept as they were given."""

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from k3decode.decode.prepared_launch import PreparedLaunch
from k3decode.decode.record import main, record_step
from k3decode.recording import RecordingError


def _add(source: Tensor, target: Tensor, *, factor: float) -> None:
    target += factor * source


def _clear(target: Tensor) -> None:
    target.zero_()


def test_a_step_is_run_and_the_wanted_ops_are_recorded_as_they_were_given() -> None:
    source, target = torch.ones(2), torch.zeros(2)
    launches = [
        PreparedLaunch("first", partial(_add, source, target, factor=2.0)),
        PreparedLaunch("between", partial(_clear, source)),
        PreparedLaunch("last", partial(_add, source, target, factor=3.0)),
    ]
    calls = record_step(launches, {_add: "add", _clear: "clear"}, ["add"])
    assert target.tolist() == [2.0, 2.0]
    assert [(call.op, call.name) for call in calls] == [
        ("add", "launch 0, first"),
        ("add", "launch 2, last"),
    ]
    assert calls[0].tensor("source").tolist() == [1.0, 1.0]
    assert calls[0].tensor("target").tolist() == [0.0, 0.0]
    assert calls[1].tensor("source").tolist() == [0.0, 0.0]
    assert calls[1].number("factor") == 3.0


def test_a_launch_of_no_op_is_refused_in_words() -> None:
    launch = PreparedLaunch("odd", partial(_clear, torch.zeros(1)))
    with pytest.raises(RecordingError, match="launch 0, odd: expected a call of an op's launch"):
        record_step([launch], {_add: "add"}, ["add"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--op", "nothing"], "expected an op with a kernel"),
        (["no/such/folder/file.pt"], "expected a folder for no/such/folder/file.pt"),
    ],
)
def test_bad_arguments_are_refused_before_a_gpu_is_looked_for(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main([*arguments, "calls.pt"] if "--op" in arguments else arguments)
    assert words in capsys.readouterr().err.replace("\n", " ")
