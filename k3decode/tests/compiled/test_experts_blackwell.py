"""What Blackwell's expert kernels compile to: the chip's own instructions, and no spill."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("architecture", ["sm_100a", "sm_103a"])
def test_both_halves_use_bulk_copies_and_tensor_memory(architecture: str) -> None:
    arguments = ["experts", "--typical", "--json", "--architecture", architecture]
    # A process of its own: the compiler reads what to keep when it is imported.
    done = subprocess.run(
        [sys.executable, "-m", "k3decode.compile_report", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    gate_up, down, add = (json.loads(line) for line in done.stdout.splitlines())
    for half in (gate_up, down):
        for family in ("tensor core", "tensor memory", "bulk copy"):
            assert half["instructions"][family] > 0
        assert half["shared_bytes"] <= 232_448
    assert "tensor core" not in add["instructions"]
    assert not any(kernel["spills"] for kernel in (gate_up, down, add))
