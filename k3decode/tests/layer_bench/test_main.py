"""The command on a CPU: launches are plain torch, and no time is taken."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from k3decode.decode import executor as executor_module
from k3decode.decode.executor import CapturedStep
from k3decode.decode.prepared_launch import PreparedLaunch
from k3decode.layer_bench import __main__ as command

# The executor of its own tests, which lie in a folder beside this one.
from ..decode.executor_on_cpu import CPU, DIMS, torch_ops  # noqa: TID252

__all__ = ["torch_ops"]


class _NoClocks:
    """Clocks of nothing."""

    def __enter__(self) -> "_NoClocks":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def facts(self) -> dict[str, object]:
        return {}


class _NoReads:
    """Reads that take a microsecond."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def read_us(self, *_: object) -> float:
        return 1.0


def _capture(
    launches: Sequence[PreparedLaunch], beside: Callable[[], None] | None = None
) -> CapturedStep:
    """Runs a step once; there is no graph."""
    if beside is not None:
        beside()
    for launch in launches:
        launch.run()
    graph: Any = None
    return CapturedStep(graph=graph, launches=tuple(launches))


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch, torch_ops: None) -> None:
    """Nothing of the command needs a GPU."""
    monkeypatch.setattr(executor_module, "capture", _capture)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    replaced = {
        "_DEVICE": CPU,
        "shard_dims": lambda dims, _ranks: dims,
        "ClockLog": _NoClocks,
        "circumstances": lambda *_: {},
        "_taking_turns": lambda *_: [[30.0] * 6, [10.0] * 6],
    }
    for name, value in replaced.items():
        monkeypatch.setattr(command, name, value)
    monkeypatch.setattr("k3decode.read_rate.ReadRate", _NoReads)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--stack mla_moe --context 70 --batch 1 2", {"kernels_per_layer": 14.0}),
        ("--stack kda_dense", {"kernels_per_layer": 7.0, "distinct_experts": 0.0}),
        ("--stack kda_moe --peers --ranks 2", {"kernels_per_layer": 10.0, "peers": "stand-ins"}),
        (
            "--stack kda_moe --tokens 2 --draw trace --trace TRACE",
            {"rows": 2, "tokens": 2, "peers": "none", "distinct_experts": 6.0},
        ),
    ],
)
@pytest.mark.usefixtures("on_cpu")
def test_a_line_says_what_was_timed(
    words: str,
    expected: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A gather of logits takes 128 of them at least.
    dims = replace(DIMS, num_experts=128 if "--peers" in words else 16)
    monkeypatch.setattr(command, "K3Dims", lambda: dims)
    trace = tmp_path / "trace.jsonl"
    chosen = [[3, 1, 4, 15], [9, 2, 3, 1]]
    trace.write_text(json.dumps({"layer": 1, "experts": chosen}) + "\n")
    given = ["--commit", "c", "--batch", "1", "--depths", "2", "1"]
    given += ["--turns", str(tmp_path / "turns"), *words.replace("TRACE", str(trace)).split()]
    assert command.main(given) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(records) == (2 if "--batch 1 2" in words else 1)
    for record in records:
        assert record["median_us"] == 20.0 and record["depths"] == [2, 1]
        assert record["floor_us"] == pytest.approx(record["bytes"] / 4.3e6, abs=1e-3)
        assert record["floor_ratio"] == pytest.approx(20.0 / record["floor_us"], rel=0.2)
    for name, value in expected.items():
        found = records[0][name]
        assert str(found).startswith(value) if isinstance(value, str) else found == value


@pytest.mark.usefixtures("on_cpu")
def test_a_trace_without_its_draw_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--commit", "c", "--trace", "somewhere"])
    assert "--draw trace with --trace FILE, found one without the other" in capsys.readouterr().err
