"""How addresses are followed through SASS; each kernel reads `[R2.64]` once."""

from collections.abc import Sequence

import pytest

from k3decode.audit.declaration import declaration_for, read_declarations
from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.rules import Load, audit_kernel
from k3decode.audit.sass import read_sass

from .sass_listing import sass_kernel, sass_text

# Parameters 0 to 3 at c[0x0][0x210], 0x218, 0x220 and 0x228.
_FIRST = "LDC.64 R4, c[0x0][0x210]"
_SECOND = "LDC.64 R6, c[0x0][0x218]"
_UNIFORM = "ULDC.64 UR6, c[0x0][0x210]"
_TO_UNIFORM = ("R2UR UR6, R4", "R2UR UR7, R5")
_REMARK = '(*"SpillRefill"*)'
_READ = "LDG.E R0, desc[UR4][R2.64]"


def _read(
    lines: Sequence[str], declared: str = "", sizes: Sequence[int] = (8, 8, 8, 8)
) -> tuple[set[str], str | None]:
    """Parameters that the last read begins with, and why it cannot be followed."""
    kernel = sass_kernel([*lines, "EXIT"], sizes)
    declarations = read_declarations(f'[[kernel]]\nname = "k"\n{declared}')
    load: Load = audit_kernel(kernel, declaration_for(kernel, declarations)).loads[-1]
    return set(load.parameters), load.unknown


@pytest.mark.parametrize(
    "lines",
    [
        ["LDC.64 R2, c[0x0][0x210]"],
        ["IMAD.MOV.U32 R2, RZ, RZ, c[0x0][0x210]", "IMAD.MOV.U32 R3, RZ, RZ, c[0x0][0x214]"],
        [_FIRST, "MOV R2, R4", "MOV R3, R5"],
        [_FIRST, "S2R R8, SR_TID.X", "IMAD.WIDE.U32 R2, R8, 0x4, R4"],
        ["HFMA2.MMA R9, -RZ, RZ, 0, 4.76e-07", "IMAD.WIDE R2, R8, R9, c[0x0][0x210]"],
        [_UNIFORM, "LEA R2, P0, R8, UR6, 0x2", "LEA.HI.X R3, R8, UR7, R9, 0x2, P0"],
        [_FIRST, "IADD3 R2, P0, R4, 0x80, RZ", "IADD3.X R3, RZ, R5, RZ, P0, !PT"],
        [_FIRST, "IADD3 R2, P0, PT, R4, R8, RZ", "IADD3.X R3, PT, PT, R5, R9, RZ, P0, !PT"],
        ["LDCU.128 UR8, c[0x0][0x210]", "MOV R2, UR8", "MOV R3, UR9"],
        [_FIRST, *_TO_UNIFORM, "UIADD3 UR6, UP0, UR6, 0x10, URZ", "MOV R2, UR6", "MOV R3, UR7"],
        [_FIRST, "LOP3.LUT R2, R4, 0xfffffff0, RZ, 0xc0, !PT", "MOV R3, R5"],
        [_FIRST, "SHFL.IDX PT, R2, R4, RZ, 0x1f", "SHFL.IDX PT, R3, R5, RZ, 0x1f"],
        [_FIRST, f"STL.64 [R1+0x8], R4 {_REMARK}", "MOV R4, 0x1", f"LDL.64 R2, [R1+0x8] {_REMARK}"],
        [_FIRST, "IADD.64 R2, R4, R8"],
        [_FIRST, "LDS R8, [R9]", "IADD3 R2, P0, R4, R8, RZ", "IADD3.X R3, RZ, R5, RZ, P0, !PT"],
    ],
    ids=[
        "constant bank",
        "constant operand",
        "move",
        "wide product",
        "wide product by a constant in floating point",
        "shifted sum",
        "sum",
        "sum with carries as Blackwell writes them",
        "uniform registers",
        "to uniform registers and back",
        "mask",
        "shuffle",
        "stack",
        "64-bit sum",
        "offset from shared memory",
    ],
)
def test_an_address_is_followed_to_its_parameter(lines: list[str]) -> None:
    assert _read([*lines, _READ]) == ({"0"}, None)


@pytest.mark.parametrize(
    "lines",
    [
        [_FIRST, _SECOND, "SEL R2, R4, R6, P0", "SEL R3, R5, R7, P0"],
        [_FIRST, _SECOND, "MOV R2, R4", "MOV R3, R5", "@P0 MOV R2, R6", "@P0 MOV R3, R7"],
        [_FIRST, _SECOND, "MOV R2, R4", "@P0 BRA `(.L_x_1)", "MOV R2, R6", ".L_x_1:"],
        ["SEL R8, RZ, 0x8, P0", "LDC.64 R2, c[0x0][R8+0x210]"],
        [_FIRST, _SECOND, "VIMNMX R2, R4, R6, PT"],
        [_FIRST, _SECOND, "IADD3 R2, P0, -R4, R6, R4"],
    ],
    ids=["select", "guarded moves", "branch", "indexed parameter", "minimum", "difference"],
)
def test_an_address_of_two_parameters_has_both(lines: list[str]) -> None:
    assert _read([*lines, _READ]) == ({"0", "1"}, None)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["S2R R2, SR_TID.X"], "no parameter"),
        (["LDC.64 R2, c[0x4][0x8]"], "variable of the module"),
        ([_FIRST, "LDG.E.64 R2, desc[UR4][R4.64]"], "what the instruction at 0x10 loaded"),
        ([_FIRST, "FADD R2, R4, R5"], "no parameter"),
        ([_FIRST, "SHF.R.U32.HI R2, RZ, 0x4, R4"], "no parameter"),
        ([_FIRST, "STL [R9], R4", "LDL R2, [R1+0x8]"], "what the instruction at 0x20 loaded"),
        ([_FIRST, "SOMETHING.NEW R2, R4, R5"], "no parameter"),
    ],
)
def test_what_cannot_be_followed_is_said(lines: list[str], words: str) -> None:
    parameters, unknown = _read([*lines, _READ])
    assert unknown is not None
    assert words in unknown
    assert parameters == set()


def test_a_guarded_value_is_used_under_the_same_guard() -> None:
    lines = [_FIRST, "LDG.E R2, desc[UR4][R4.64]", "@!P0 MOV R2, R4", "@!P0 MOV R3, R5"]
    assert _read([*lines, f"@!P0 {_READ}"]) == ({"0"}, None)
    # A label that no jump names is no place where paths meet.
    assert _read([*lines, ".L_x_5:", f"@!P0 {_READ}"]) == ({"0"}, None)
    jump = ["@P1 BRA `(.L_x_5)", *lines]
    assert _read([*jump, ".L_x_5:", f"@!P0 {_READ}"])[1] is not None
    # Another guard, or the same one after its predicate has changed, says nothing.
    assert _read([*lines, f"@P0 {_READ}"])[1] is not None
    changed = [*lines, "ISETP.NE.U32.AND P0, PT, R8, RZ, PT", f"@!P0 {_READ}"]
    assert _read(changed)[1] is not None


_KEPT = [
    "ISETP.GE.AND P6, PT, R9, R10, PT",
    _FIRST,
    "@!P6 IMAD.WIDE.U32 R2, R8, 0x4, R4",
    "P2R R12, PR, RZ, 0x40",
    "ISETP.GE.AND P6, PT, R11, R10, PT",
    "@P4 BRA `(.L_x_1)",
    "FADD R13, R13, R13",
    ".L_x_1:",
]
_TESTED = "ISETP.NE.AND P0, PT, R12, RZ, PT"


# What the register held before: another pointer, which shows when a guard does not count.
_BEFORE = "LDC.64 R2, c[0x0][0x218]"
_EITHER = ({"0", "1"}, None)


def test_a_predicate_that_was_kept_in_a_register_is_the_same_guard() -> None:
    start = [_BEFORE]
    assert _read([*start, *_KEPT, _TESTED, f"@!P0 {_READ}"]) == ({"0"}, None)
    # The other side, another bit, what P6 is by now, and a value that one path replaced.
    assert _read([*start, *_KEPT, _TESTED, f"@P0 {_READ}"]) == _EITHER
    other_bit = [line.replace("0x40", "0x20") for line in _KEPT]
    assert _read([*start, *other_bit, _TESTED, f"@!P0 {_READ}"]) == _EITHER
    assert _read([*start, *_KEPT, f"@!P6 {_READ}"]) == _EITHER
    loaded = "LDG.E.64 R2, desc[UR4][R4.64]"
    replaced = [line.replace("FADD R13, R13, R13", loaded) for line in _KEPT]
    assert _read([*start, *replaced, _TESTED, f"@!P0 {_READ}"])[1] is not None
    lost = [line.replace("FADD R13", "FADD R12") for line in _KEPT]
    assert _read([*start, *lost, _TESTED, f"@!P0 {_READ}"]) == _EITHER


def test_a_guard_of_the_round_before_is_not_that_of_this_round() -> None:
    lines = [_BEFORE, _FIRST, ".L_x_1:", f"@P0 {_READ}"]
    lines += ["ISETP.GE.AND P0, PT, R9, R10, PT", _BEFORE, "@P0 MOV R2, R4", "@P0 MOV R3, R5"]
    lines += ["IADD3 R9, R9, 0x1, RZ", "ISETP.GE.AND P1, PT, R9, 0x9, PT", "@!P1 BRA `(.L_x_1)"]
    assert _read(lines) == _EITHER


def test_a_guard_that_its_own_instruction_changes_says_nothing() -> None:
    lines = [_BEFORE, _FIRST, "@P0 IADD3 R2, P0, R4, R8, RZ", f"@P0 {_READ}"]
    assert _read(lines) == _EITHER


_ELECTED = ["@P5 R2UR UR6, R4", "@P5 R2UR UR7, R5", "MOV R2, UR6", "MOV R3, UR7", _READ]


def test_a_uniform_register_is_always_written_by_the_thread_that_is_elected() -> None:
    start = [_FIRST, "ULDC.64 UR6, c[0x0][0x218]", "NOP", "ELECT P5, URZ, PT"]
    assert _read([*start, *_ELECTED]) == ({"0"}, None)
    # Not by threads that lost, by a condition of another kind, or in a place others jump to.
    lost = [line.replace("@P5", "@!P5") for line in _ELECTED]
    assert _read([*start, *lost]) == _EITHER
    changed = [*start, "ISETP.NE.U32.AND P5, PT, R8, RZ, PT", *_ELECTED]
    assert _read(changed) == _EITHER
    joined = [start[0], start[1], "@P1 BRA `(.L_x_1)", *start[2:], ".L_x_1:", *_ELECTED]
    assert _read(joined) == _EITHER
    # A register of each thread keeps what it was in those that lost.
    vector = [_FIRST, _BEFORE, "ELECT P5, URZ, PT", "@P5 MOV R2, R4", _READ]
    assert _read(vector) == _EITHER


def test_a_number_that_an_address_replaces_is_no_address() -> None:
    # What was there before faults when it is read; alone it is what cannot be followed.
    number = ["S2R R2, SR_TID.X", _FIRST, "@P0 MOV R2, R4", "@P0 MOV R3, R5"]
    assert _read([*number, _READ]) == ({"0"}, None)
    assert _read([number[0], _READ])[1] is not None


def test_a_pointer_hidden_in_a_product_counts_when_it_is_one_elsewhere() -> None:
    hidden = [_FIRST, _SECOND, "IMAD.WIDE.U32 R2, R6, R8, R4", _READ]
    assert _read(hidden) == ({"0"}, None)
    elsewhere = ["LDC.64 R10, c[0x0][0x218]", "LDG.E R11, desc[UR4][R10.64]"]
    assert _read([*elsewhere, *hidden]) == ({"0", "1"}, None)


def test_a_scalar_of_64_bits_is_one_by_declaration() -> None:
    lines = [_FIRST, _SECOND, "IADD3 R2, P0, R4, R6, RZ", _READ]
    assert _read(lines) == ({"0", "1"}, None)
    assert _read(lines, "scalar = [1]") == ({"0"}, None)
    small = [_FIRST, "LDC R6, c[0x0][0x218]", "IADD3 R2, P0, R4, R6, RZ", _READ]
    assert _read(small, sizes=(8, 4, 4, 8)) == ({"0"}, None)


def test_tables_of_addresses_are_declared() -> None:
    lines = [_FIRST, "LDG.E.64 R2, desc[UR4][R4.64]", _READ]
    assert _read(lines)[1] is not None
    assert _read(lines, "static_tables = [0]")[1] is None
    kernel = sass_kernel([*lines, "ACQBULK", "EXIT"])
    for key, found in (("static_tables", []), ("activation_tables", ["before-wait"] * 2)):
        declarations = read_declarations(f'[[kernel]]\nname = "k"\n{key} = [0]')
        audit = audit_kernel(kernel, declaration_for(kernel, declarations))
        assert [finding.code for finding in audit.findings] == found


def test_a_tensor_map_is_the_parameter_it_lies_in() -> None:
    lines = ["ULDC.64 UR4, c[0x0][0x198]", "UIADD3 UR6, UP0, UR4, 0x80, URZ"]
    lines += ["UIADD3.X UR7, URZ, UR5, URZ, UP0, !UPT", "UTMALDG.2D [UR8], [UR6]"]
    assert _read(lines, sizes=(128, 128)) == ({"1"}, None)
    # An unknown distance may lead to any of them.
    lines[1] = "UIADD3 UR6, UP0, UR4, UR10, URZ"
    assert _read(["S2UR UR10, SR_CTAID.X", *lines], sizes=(128, 128)) == ({"0", "1"}, None)


def test_wide_results_replace_all_their_registers() -> None:
    lines = ["LDC.64 R2, c[0x0][0x210]", "LDS.128 R0, [R9]", _READ]
    assert _read(lines)[1] is not None
    lines[1] = "HMMA.16816.F32.BF16 R0, R12, R16, R20"
    assert _read(lines)[1] is not None
    lines[1] = "LDTM.x8 R0, tmem[UR4]"
    assert _read(lines)[1] is not None
    lines[1] = "HGMMA.64x16x16.F32.BF16 R0, gdesc[UR8], R0"
    assert _read(lines)[1] is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected text of nvdisasm"),
        ("\t.target\tsm_90a\n", "expected text of nvdisasm"),
        (
            '\t.target\tsm_90a\n\t.section\t.text.k,"ax",@progbits\n',
            "a section .nv.info.k that lists the parameters, found none: call nvdisasm without -c",
        ),
    ],
)
def test_other_texts_are_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(UnreadableInputError) as error:
        read_sass(text)
    assert words in str(error.value)


def test_parameters_without_a_list_are_refused_in_words() -> None:
    text = sass_text(["EXIT"]).replace("EIATTR_KPARAM_INFO", "EIATTR_KPARAM_INFO_OTHER")
    with pytest.raises(UnreadableInputError, match="parameters of k, which take 32 bytes"):
        read_sass(text)


def test_an_instruction_that_is_written_otherwise_is_refused_in_words() -> None:
    with pytest.raises(UnreadableInputError, match="expected 1 addresses at 0x10"):
        sass_kernel([_FIRST, "LDG.E R0, R2", "EXIT"])


def test_parameters_have_the_sizes_and_places_of_the_launch() -> None:
    (kernel,) = read_sass(sass_text(["EXIT"], (128, 16, 8, 4)))
    places = [(p.ordinal, p.offset, p.size) for p in kernel.parameters]
    assert places == [(0, 0, 128), (1, 128, 16), (2, 144, 8), (3, 152, 4)]
