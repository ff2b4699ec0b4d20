"""`make eval` around `k3-eval`: how it ends when the runner does not end by itself."""

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

from k3house import evaluate as module
from k3house.change import Change
from k3house.evaluate import Evaluation, evaluate
from k3house.narrate import Narrator
from k3house.problem import HouseError


def _asked() -> Evaluation:
    change = Change(repository="example/project", pull_request="7", commit="a" * 40)
    return Evaluation(
        change=change, engine_url="http://127.0.0.1:1", registry_port=1, wheels=None, keep=False
    )


@pytest.fixture
def registry_there(monkeypatch: pytest.MonkeyPatch) -> None:
    address = nullcontext("http://127.0.0.1:1")
    monkeypatch.setattr(module, "check_registry", Mock(return_value=True))
    monkeypatch.setattr(module, "_prepare", Mock(return_value=Narrator(0)))
    monkeypatch.setattr(module, "running_registry", Mock(return_value=address))


@pytest.mark.usefixtures("registry_there")
def test_a_killed_runner_is_told_with_the_way_to_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("20260102T000000-aa", "20260103T000000-bb"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(module, "RUNS", tmp_path)
    monkeypatch.setattr(module, "_referee", Mock(return_value=(-9, "")))
    with pytest.raises(HouseError) as caught:
        evaluate(_asked())
    assert "ended by SIGKILL" in str(caught.value)
    assert f"resume {tmp_path / '20260103T000000-bb'}" in str(caught.value)


@pytest.mark.usefixtures("registry_there")
def test_a_refusal_of_the_runner_keeps_its_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_referee", Mock(return_value=(5, "")))
    assert evaluate(_asked()) == 5
