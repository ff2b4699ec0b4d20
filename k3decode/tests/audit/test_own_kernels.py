"""The audit of this package's own kernels: how it sums up, and one kernel the whole way."""

import json
import subprocess
import sys

import pytest

from k3decode.audit.own_kernels import table
from k3decode.audit.report import KernelReport
from k3decode.audit.sass import read_sass

from .expectations import FIXTURES, audited


def _report(name: str, architecture: str) -> KernelReport:
    (kernel,) = read_sass((FIXTURES / f"{name}.{architecture}.sass").read_text())
    return KernelReport(name, audited(kernel))


def test_the_table_has_a_row_for_each_op_and_architecture() -> None:
    rows = [
        ("one", _report("load_after_poll", "sm_90a")),
        ("one", _report("select_of_two", "sm_90a")),
        ("one", _report("load_after_poll", "sm_100a")),
        ("other", _report("wait_dominates", "sm_90a")),
    ]
    assert table(rows).splitlines() == [
        "| op | architecture | kernels | clean | reads | static before a wait "
        "| settled before a wait | launched as dependents |",
        "|---|---|---|---|---|---|---|---|",
        "| `one` | sm_90a | 2 | 1 | 4 | 1 | 0 | 2 |",
        "| `one` | sm_100a | 1 | 1 | 3 | 1 | 0 | 1 |",
        "| `other` | sm_90a | 1 | 1 | 1 | 0 | 0 | 1 |",
    ]


@pytest.mark.compiled
def test_a_kernel_of_this_package_is_compiled_and_clean() -> None:
    # A process of its own: the compiler reads what to keep when it is imported.
    arguments = ["embedding", "--json", "--architecture", "sm_90a", "--architecture", "sm_100a"]
    done = subprocess.run(
        [sys.executable, "-m", "k3decode.audit.own_kernels", *arguments],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["architecture"] for record in records] == ["sm_90a", "sm_100a"]
    for record in records:
        assert record["decided_on"] == "SASS"
        assert record["declared"]
        assert record["loads"]["static after a wait"] == 1
