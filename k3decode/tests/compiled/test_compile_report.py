"""A few variants, compiled for every architecture on a CPU; needs nvidia-cutlass-dsl."""

import json

import pytest

from k3decode import compile_report
from k3decode.host.inputs import ARCHITECTURES


@pytest.mark.parametrize("op", ["embedding", "kda"])
def test_variants_compile_for_every_architecture_without_spills(
    op: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compile_report.main([op, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {record["architecture"] for record in records} == set(ARCHITECTURES.values())
    assert all(0 < record["registers"] <= 128 for record in records)
    shared = {"embedding": 0, "kda": 5 * 128 * 4}
    assert {record["shared_bytes"] for record in records} == {shared[op]}
