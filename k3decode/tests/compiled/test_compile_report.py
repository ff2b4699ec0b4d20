"""What the compile report says of small kernels, compiled for every architecture on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from k3decode import compile_report
from k3decode.host.inputs import ARCHITECTURES

pytestmark = pytest.mark.compiled


def test_a_report_has_what_a_kernel_uses_and_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["embedding", "--json", "--cache", str(tmp_path)]
    # A process of its own: the compiler reads what to keep when it is imported.
    done = subprocess.run(
        [sys.executable, "-m", "k3decode.compile_report", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout
    records = [json.loads(line) for line in lines.splitlines()]
    assert {record["architecture"] for record in records} == set(ARCHITECTURES.values())
    for record in records:
        assert 0 < record["registers"] <= 64
        assert (record["shared_bytes"], record["spills"]) == (0, False)
        # One 16-byte load and store per thread, and the token's id.
        assert 3 <= record["instructions"]["global"] <= 6

    def broken(*_place: str) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(compile_report, "compile_variant_reports", broken)
    assert compile_report.main(arguments) == 0
    assert capsys.readouterr().out == lines
