"""What Blackwell's expert kernels compile to: the chip's own instructions, and no spill."""

import json

import pytest

from k3decode import compile_report

pytestmark = pytest.mark.compiled


@pytest.mark.parametrize("architecture", ["sm_100a", "sm_103a"])
def test_both_halves_use_bulk_copies_and_tensor_memory(
    architecture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["experts", "--typical", "--json", "--architecture", architecture]
    assert compile_report.main(arguments) == 0
    gate_up, down, add = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    for half in (gate_up, down):
        for family in ("tensor core", "tensor memory", "bulk copy"):
            assert half["instructions"][family] > 0
        assert half["shared_bytes"] <= 232_448
    assert "tensor core" not in add["instructions"]
    assert not any(kernel["spills"] for kernel in (gate_up, down, add))
