"""Small kernels that are wrong in one way, and some that only look so, from their disassembly."""

import pytest

from k3decode.audit.declaration import declaration_for
from k3decode.audit.program import Kernel
from k3decode.audit.ptx import read_ptx
from k3decode.audit.rules import audit_kernel
from k3decode.audit.sass import read_sass

from .expectations import ARCHITECTURES, EXPECTED, FIXTURES, audited, said


def _sass(name: str, architecture: str) -> Kernel:
    (kernel,) = read_sass((FIXTURES / f"{name}.{architecture}.sass").read_text())
    return kernel


def _ptx(name: str) -> Kernel:
    (kernel,) = read_ptx((FIXTURES / f"{name}.{ARCHITECTURES[0]}.ptx").read_text())
    return kernel


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", EXPECTED)
def test_machine_code_gets_its_findings_and_no_other(name: str, architecture: str) -> None:
    kernel = _sass(name, architecture)
    assert (kernel.target, kernel.dialect) == (architecture, "SASS")
    assert said(audited(kernel)) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_ptx_gets_the_same_findings(name: str) -> None:
    kernel = _ptx(name)
    assert (kernel.target, kernel.dialect) == (ARCHITECTURES[0], "PTX")
    assert said(audited(kernel)) == EXPECTED[name]


def test_both_kinds_are_there() -> None:
    wrong = [name for name, findings in EXPECTED.items() if findings]
    assert len(wrong) >= 13
    assert len(EXPECTED) - len(wrong) >= 9
    files = {path.name for path in FIXTURES.iterdir()}
    assert files == {
        f"{name}.{architecture}.{dialect}"
        for name in EXPECTED
        for architecture in ARCHITECTURES
        for dialect in ("sass", "ptx")
        if dialect == "sass" or architecture == ARCHITECTURES[0]
    }


def test_a_finding_shows_a_path_that_reaches_the_read_without_a_wait() -> None:
    audit = audited(_sass("wait_on_one_branch", "sm_90a"))
    (finding,) = audit.findings
    wait = next(i.at for i in audit.kernel.instructions if i.text == "ACQBULK")
    assert finding.path[0] == 0
    assert finding.path[-1] <= finding.at
    assert not any(at <= wait < finding.path[-1] for at in finding.path[1:])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_is_static_decides_whether_an_early_read_is_a_finding(architecture: str) -> None:
    kernel = _sass("weight_prefetch", architecture)
    (early,) = [load for load in audited(kernel).loads if load.early]
    assert early.parameters == ("weight",)
    undeclared = audit_kernel(kernel, declaration_for(kernel, ()))
    assert [(f.code, f.at) for f in undeclared.findings if f.code == "before-wait"] == [
        ("before-wait", early.instruction.at)
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["load_after_poll", "wait_dominates", "tensor_copy_of_weights"])
def test_without_the_wait_the_look_alikes_are_wrong(name: str, architecture: str) -> None:
    text = (FIXTURES / f"{name}.{architecture}.sass").read_text()
    for wait in (" ACQBULK ", " LDG.E.STRONG.GPU ", " SYNCS.PHASECHK"):
        plain = {" LDG.E.STRONG.GPU ": " LDG.E "}.get(wait, " NOP ")
        text = text.replace(wait, plain)
    (kernel,) = read_sass(text)
    assert ("before-wait", ("activation",)) in said(audited(kernel))
