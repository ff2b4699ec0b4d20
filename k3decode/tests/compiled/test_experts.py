"""What the expert kernel of few rows compiles to on Hopper; CI reports that of many."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiled

_PROGRAM = """
from k3decode.compile_report import compile_variant_reports
for report in compile_variant_reports("experts", "tp8_m4_narrow", "sm_90a"):
    print(report.record())
"""
_SHARED_OF_A_CTA = 232_448
_WARPS_REGISTERS = 65_536 // 512


def test_few_rows_fit_an_sm_and_spill_nothing(tmp_path: Path) -> None:
    # A process of its own: the compiler reads what to keep when it is imported.
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "CUTE_DSL_KEEP": "cubin,ir", "CUTE_DSL_DUMP_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    (kernel,) = (json.loads(line) for line in done.stdout.splitlines())
    assert not kernel["spills"]
    assert kernel["registers"] <= _WARPS_REGISTERS
    # Rings of nine chunks and the rows nearly fill it.
    assert 220_000 < kernel["shared_bytes"] <= _SHARED_OF_A_CTA
    for family in ("tensor core", "async copy"):
        assert kernel["instructions"][family] > 0
