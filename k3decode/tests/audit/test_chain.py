"""Early reads that are right only because of the kernel before."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from k3decode.audit.chain import settle
from k3decode.audit.declaration import declaration_for, read_declarations
from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.rules import Audit, audit_kernel

from .sass_listing import sass_kernel

_SECOND = ["LDC.64 R2, c[0x0][0x210]", "LDG.E R0, desc[UR4][R2.64]", "ACQBULK", "EXIT"]
_DECLARATIONS = read_declarations(
    """
    [[kernel]]
    name = "second"
    settled = [0]
    predecessor = "first*"

    [[kernel]]
    name = "first_of_a_stream"
    dependent_launch = false
    """
)


def _audit(name: str, lines: Sequence[str], target: str = "sm_90a") -> Audit:
    kernel = replace(sass_kernel(lines), name=name, target=target)
    return audit_kernel(kernel, declaration_for(kernel, _DECLARATIONS))


def _codes(*before: Audit) -> list[tuple[str, str]]:
    *_, judged = settle([*before, _audit("second", _SECOND)])
    return [(finding.code, finding.why.rsplit("* ", 1)[1]) for finding in judged.findings]


def test_a_predecessor_that_waits_first_settles() -> None:
    assert _codes(_audit("first", ["ACQBULK", "PREEXIT", "EXIT"])) == []
    # Without an early start, dependents start when it has ended.
    assert _codes(_audit("first", ["EXIT"])) == []
    assert _codes(_audit("first_of_a_stream", ["PREEXIT", "EXIT"])) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["PREEXIT", "ACQBULK", "EXIT"],
        ["PREEXIT", "EXIT"],
        ["@P0 BRA `(.L_x_1)", "ACQBULK", ".L_x_1:", "PREEXIT", "EXIT"],
        ["@P0 ACQBULK", "PREEXIT", "EXIT"],
    ],
)
def test_a_predecessor_that_may_start_it_earlier_does_not(lines: list[str]) -> None:
    expected = [("unsettled", "lets it start before it has waited itself")]
    assert _codes(_audit("first", lines)) == expected


def test_a_predecessor_has_to_be_audited_along() -> None:
    expected = [("unsettled", "was not audited along")]
    waiting = ["ACQBULK", "PREEXIT", "EXIT"]
    assert _codes() == expected
    assert _codes(_audit("other", waiting)) == expected
    assert _codes(_audit("first", waiting, target="sm_100a")) == expected


def test_settled_memory_is_read_coherently_like_any_other() -> None:
    lines = [line.replace("LDG.E R0", "LDG.E.CONSTANT R0") for line in _SECOND]
    assert [finding.code for finding in _audit("second", lines).findings] == ["non-coherent"]


@pytest.mark.parametrize("lines", ["settled = [0]", "predecessor = 'first'"])
def test_settled_parameters_and_predecessor_belong_together(lines: str) -> None:
    with pytest.raises(UnreadableInputError, match="settled parameters and their predecessor"):
        read_declarations(f"[[kernel]]\nname = '*'\n{lines}")
