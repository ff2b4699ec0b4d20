"""Reads and waits in disguise: what is no wait, and what hides where an address comes from."""

from collections.abc import Sequence

import pytest

from k3decode.audit.declaration import declaration_for, read_declarations
from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.ptx import read_ptx
from k3decode.audit.rules import audit_kernel
from k3decode.audit.sass import read_sass

from .sass_listing import sass_kernel, sass_text

# Activation, weight, flag, output.
_SETUP = (
    "LDC.64 R2, c[0x0][0x210]",
    "LDC.64 R4, c[0x0][0x218]",
    "LDC.64 R6, c[0x0][0x220]",
    "S2R R10, SR_TID.X",
)
_READ = "LDG.E R0, desc[UR4][R2.64]"
_READ_CHOSEN = "LDG.E R0, desc[UR4][R12.64]"
_POLL = "LDG.E.STRONG.GPU R8, desc[UR4][R6.64]"
_MEET = "BAR.SYNC.DEFER_BLOCKING 0x0"


def _codes(lines: Sequence[str], declared: str = "static = [1]") -> list[str]:
    kernel = sass_kernel([*_SETUP, *lines, "EXIT"])
    declarations = read_declarations(f'[[kernel]]\nname = "k"\n{declared}')
    return [
        one.code for one in audit_kernel(kernel, declaration_for(kernel, declarations)).findings
    ]


def _polled(poll: str, *inside: str, test: str = "R8") -> list[str]:
    again = f"ISETP.NE.U32.AND P0, PT, {test}, RZ, PT"
    return [".L_x_1:", poll, *inside, again, "@!P0 BRA `(.L_x_1)"]


@pytest.mark.parametrize("end", ["EXIT", "BRA `(.L_x_9)"], ids=["ends", "spins"])
def test_threads_that_never_meet_the_others_pass_no_wait_on(end: str) -> None:
    lines = ["ISETP.GT.U32.AND P0, PT, R10, 0x1f, PT", "@P0 BRA `(.L_x_9)", _MEET, _READ, "EXIT"]
    lines += [".L_x_9:", "LDS R20, [R21]", end]
    assert _codes(lines) == ["before-wait"]
    assert _codes(["ACQBULK", *lines]) == []


def test_a_poll_of_what_nobody_writes_is_no_wait() -> None:
    of_weights = _polled(_POLL.replace("R6", "R4"))
    assert _codes([*of_weights, _READ]) == ["before-wait"]
    assert _codes([*_polled(_POLL), _READ]) == []


@pytest.mark.parametrize("read", ["LDS R9, [R21]", "LDG.E R9, desc[UR4][R4.64]"])
def test_a_poll_that_something_else_can_end_is_no_wait(read: str) -> None:
    either = _polled(_POLL, read, "LOP3.LUT R11, R8, R9, RZ, 0xfc, !PT", test="R11")
    assert "before-wait" in _codes([*either, _READ])
    # Read once before the loop, it is what the flag is compared with.
    before = _polled(_POLL, "LOP3.LUT R11, R8, R9, RZ, 0x3c, !PT", test="R11")
    assert _codes([read, *before, _READ]) == []


_SIGNALS = [
    "REDG.E.ADD.STRONG.GPU desc[UR4][R6.64], R9",
    "ATOMG.E.ADD.STRONG.GPU PT, RZ, desc[UR4][R6.64], R9",
    "STG.E.STRONG.GPU desc[UR4][R6.64], R9",
]


@pytest.mark.parametrize("signal", _SIGNALS)
def test_ctas_that_wait_for_each_other_have_not_waited_for_the_kernel_before(signal: str) -> None:
    meeting = [signal, *_polled(_POLL)]
    assert _codes([*meeting, _READ]) == ["before-wait", "before-wait"]
    assert _codes(["ACQBULK", *meeting, _READ]) == []
    # What others write is waited for, and a flag may be taken back afterwards.
    assert _codes([*_polled(_POLL), signal, _READ]) == []
    assert _codes([*meeting, _READ], "static = [1]\nmailbox = [2]") == []
    elsewhere = ["LDC.64 R16, c[0x0][0x228]", signal.replace("R6.64", "R16.64")]
    assert _codes([*elsewhere, *_polled(_POLL), _READ]) == []


_CHOSEN = ["MOV R12, R4", "MOV R13, R5", "ISETP.NE.U32.AND P1, PT, R10, RZ, PT"]


@pytest.mark.parametrize(
    "disguise",
    [
        ["BREV R14, R2", "BREV R12, R14", "BREV R15, R3", "BREV R13, R15"],
        ["REDUX.OR UR8, R2", "MOV R12, UR8", "REDUX.OR UR9, R3", "MOV R13, UR9"],
        ["SHF.L.W.U32.HI R14, R2, 0x10, R3", "SHF.R.W.U32 R12, R14, 0x10, R3", "MOV R13, R14"],
        ["LDC R12, c[0x3][0x8]", "LDC R13, c[0x3][0xc]"],
        ["LDS.64 R12, [R21]"],
    ],
    ids=["reversed bits", "of all lanes", "shifted", "constant of the module", "shared memory"],
)
def test_an_address_that_cannot_be_followed_is_found_beside_one_that_can(
    disguise: list[str],
) -> None:
    lines = [*_CHOSEN, *(f"@P1 {line}" for line in disguise), _READ_CHOSEN]
    assert _codes(lines) == ["unknown-provenance"]
    assert _codes([*_CHOSEN, _READ_CHOSEN]) == []


@pytest.mark.parametrize(
    ("loaded", "codes"),
    [
        (["LDG.E.64 R14, desc[UR4][R4.64]"], ["unknown-provenance"]),
        (["LDS.64 R14, [R21]"], ["unknown-provenance"]),
        (["LDC R14, c[0x3][0x8]", "LDC R15, c[0x3][0xc]"], ["unknown-provenance"]),
        (["LDG.E R14, desc[UR4][R4.64]", "MOV R15, RZ"], []),
        (["LDG.E R14, desc[UR4][R4.64]", "SHF.R.S32.HI R15, RZ, 0x1f, R14"], []),
    ],
    ids=["of 64 bits", "from shared memory", "constant of the module", "of 32 bits", "with sign"],
)
def test_a_loaded_distance_may_lead_anywhere(loaded: list[str], codes: list[str]) -> None:
    added = ["IADD3 R12, P0, R4, R14, RZ", "IADD3.X R13, R5, R15, RZ, P0, !PT"]
    assert _codes([*loaded, *added, _READ_CHOSEN]) == codes


def test_one_of_many_loaded_addresses_is_unknown() -> None:
    lines = list(_CHOSEN)
    for number in range(14):
        lines += [
            f"LDS.64 R14, [R21+{8 * number:#x}]",
            f"ISETP.EQ.AND P1, PT, R10, {number:#x}, PT",
        ]
        lines += ["SEL R12, R14, R12, P1", "SEL R13, R15, R13, P1"]
    assert _codes([*lines, _READ_CHOSEN]) == ["unknown-provenance"]


def test_a_read_of_global_memory_is_none_of_shared_memory() -> None:
    shared = ["S2R R12, SR_CgaCtaId", "MOV R13, RZ"]
    assert _codes([*shared, _READ_CHOSEN]) == ["unknown-provenance"]
    assert _codes([*shared, _READ_CHOSEN.replace("LDG", "LD")]) == []


def test_a_kernel_without_parameters_is_audited() -> None:
    code = ["LDC.64 R2, c[0x4][RZ]", _READ, "EXIT"]
    text = sass_text(code, sizes=()).replace("EIATTR_PARAM_CBANK", "EIATTR_CUDA_API_VERSION")
    with pytest.raises(UnreadableInputError, match="lists the parameters"):
        read_sass(text)
    entry = text.replace(".text.k:", '        .other          k,@"STO_CUDA_ENTRY STV_DEFAULT"')
    (kernel,) = read_sass(entry)
    found = audit_kernel(kernel, declaration_for(kernel, ()))
    assert [one.code for one in found.findings] == ["unknown-provenance"]


def test_a_line_that_is_not_understood_is_refused() -> None:
    text = sass_text(["ACQBULK", _READ, "EXIT"])
    with pytest.raises(UnreadableInputError, match=r"expected an instruction, found `/\*0010\*/"):
        read_sass(text.replace("LDG.E R0", "ldg.e R0"))


_PTX = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 activation, .param .u64 weight, .param .u64 flag)
{{
    .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
    ld.param.u64 %rd1, [activation];
    ld.param.u64 %rd2, [weight];
    ld.param.u64 %rd3, [flag];
    {body}
    griddepcontrol.wait;
    ret;
}}
"""
_FRAGMENT = (
    "wmma.load.a.sync.aligned.row.m16n16k16{space}.f16 {{%r0,%r1,%r2,%r3}}, [{address}], %r9;"
)
_UNTIL = "LOOP: ld.acquire.gpu.global.u32 %r1, [%rd3]; setp.eq.u32 %p1, %r1, 0; @%p1 bra LOOP;"


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (_FRAGMENT.format(space=".global", address="%rd1"), ["before-wait"]),
        (_FRAGMENT.format(space="", address="%rd1"), ["before-wait"]),
        (_FRAGMENT.format(space=".global", address="%rd2"), []),
        (_FRAGMENT.format(space=".shared", address="%rd1"), []),
        (
            "ld.global.u64 %rd4, [%rd2]; add.s64 %rd5, %rd2, %rd4; ld.global.u32 %r1, [%rd5];",
            ["unknown-provenance"],
        ),
        (
            "ld.global.u32 %r4, [%rd2]; cvt.u64.u32 %rd4, %r4; add.s64 %rd5, %rd2, %rd4; "
            "ld.global.u32 %r1, [%rd5];",
            [],
        ),
        (f"{_UNTIL} ld.global.u32 %r2, [%rd1];", []),
        (
            f"red.global.add.u32 [%rd3], 1; {_UNTIL} ld.global.u32 %r2, [%rd1];",
            ["before-wait", "before-wait"],
        ),
        (
            f"atom.global.add.u32 _, [%rd3], 1; {_UNTIL} ld.global.u32 %r2, [%rd1];",
            ["before-wait", "before-wait"],
        ),
        (f"st.shared.u32 [%rd3], 1; {_UNTIL} ld.global.u32 %r2, [%rd1];", []),
    ],
)
def test_ptx_has_the_same_disguises(body: str, codes: list[str]) -> None:
    (kernel,) = read_ptx(_PTX.format(body=body))
    declared = declaration_for(kernel, read_declarations('[[kernel]]\nname = "k"\nstatic = [1]'))
    assert [finding.code for finding in audit_kernel(kernel, declared).findings] == codes
