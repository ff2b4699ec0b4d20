"""On one GPU many may prepare, but who times is alone.

A thread stands for another process: locks are those of an opened file, and each opens its own.
"""

import fcntl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from k3decode.turns import Turns


def _come_in(path: Path, how: str) -> str:
    turns = Turns(path)
    with turns.alone() if how == "alone" else turns.together():
        return "in"


@pytest.mark.parametrize(
    ("inside", "outside", "waits"),
    [("alone", "together", True), ("together", "alone", True), ("together", "together", False)],
)
def test_nobody_is_beside_one_who_is_alone(
    inside: str, outside: str, waits: bool, tmp_path: Path
) -> None:
    path = tmp_path / "turns"
    turns = Turns(path)
    with ThreadPoolExecutor(1) as pool:
        with turns.alone() if inside == "alone" else turns.together():
            other = pool.submit(_come_in, path, outside)
            if waits:
                _until_somebody_waits(tmp_path / "turns.gate")
                assert not other.done()
            else:
                assert other.result(60) == "in"
        assert other.result(60) == "in"


def _until_somebody_waits(gate: Path) -> None:
    """Who wants to come in holds the gate, which nobody else does here."""
    for _ in range(6000):
        with gate.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
        time.sleep(0.01)
    pytest.fail("expected somebody at the gate, found nobody within a minute")


def test_without_a_file_nobody_waits() -> None:
    turns = Turns(None)
    with turns.alone(), turns.alone():
        pass
