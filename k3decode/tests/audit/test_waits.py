"""What counts as a wait, on a few instructions each; they read activation through parameter 0."""

from collections.abc import Sequence

import pytest

from k3decode.audit.declaration import declaration_for, read_declarations
from k3decode.audit.rules import Audit, audit_kernel

from .sass_listing import sass_kernel

_SETUP = ["LDC.64 R2, c[0x0][0x210]", "LDC.64 R4, c[0x0][0x218]", "S2R R10, SR_TID.X"]
_READ = "LDG.E R0, desc[UR4][R2.64]"
_POLL = "LDG.E.STRONG.GPU R8, desc[UR4][R4.64]"
_SWAP = "ATOMG.E.CAS.STRONG.GPU PT, R8, desc[UR4][R4.64], R12, R13"
_TEST = "ISETP.NE.U32.AND P0, PT, R8, RZ, PT"
_POLL_LOOP = (".L_x_1:", _POLL, _TEST, "@!P0 BRA `(.L_x_1)")
_TRY = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR9], R9"


def _audit(lines: Sequence[str], declared: str = "static = [3]") -> Audit:
    kernel = sass_kernel([*_SETUP, *lines])
    declarations = read_declarations(f'[[kernel]]\nname = "k"\n{declared}')
    return audit_kernel(kernel, declaration_for(kernel, declarations))


def _codes(lines: Sequence[str], declared: str = "static = [3]") -> list[str]:
    return [finding.code for finding in _audit(lines, declared).findings]


@pytest.mark.parametrize(
    "lines",
    [
        ["ACQBULK"],
        [*_POLL_LOOP],
        [".L_x_1:", _TRY, "@!P0 BRA `(.L_x_1)"],
        [".L_x_1:", _TRY, "@P0 BRA `(.L_x_2)", "BRA `(.L_x_1)", ".L_x_2:"],
        [_TRY, "@P0 BRA `(.L_x_2)", ".L_x_1:", _TRY, "@!P0 BRA `(.L_x_1)", ".L_x_2:"],
        [".L_x_1:", _TRY, "SEL R9, RZ, 0x1, !P0", _TEST.replace("R8", "R9"), "@!P0 BRA `(.L_x_1)"],
        [".L_x_1:", _SWAP, "ISETP.NE.U32.AND P0, PT, R8, R12, PT", "@P0 BRA `(.L_x_1)"],
        [_POLL, _TEST, "@P0 BRA `(.L_x_2)", *_POLL_LOOP, ".L_x_2:"],
        [_POLL, _TEST, "@!P0 EXIT"],
        [_POLL, _TEST, "@!P0 BPT.TRAP 0x1"],
    ],
    ids=[
        "dependency wait",
        "poll",
        "mbarrier",
        "mbarrier left by a branch",
        "mbarrier tried before its loop",
        "mbarrier whose result goes through a register",
        "atomic poll",
        "poll tried before its loop",
        "poll or end",
        "poll or trap",
    ],
)
def test_a_wait_counts(lines: list[str]) -> None:
    assert _codes([*lines, _READ, "EXIT"]) == []
    # The read itself is what the wait is for.
    assert "before-wait" in _codes([_READ, *lines, "EXIT"])


@pytest.mark.parametrize(
    "lines",
    [
        ["PREEXIT"],
        ["@P0 ACQBULK"],
        ["@P0 BRA `(.L_x_1)", "ACQBULK", ".L_x_1:"],
        [".L_x_1:", "LDS R8, [R9]", _TEST, "@!P0 BRA `(.L_x_1)"],
        [_TRY],
        [".L_x_1:", _TRY, "@P0 BRA `(.L_x_1)"],
        ["BAR.SYNC.DEFER_BLOCKING 0x0"],
    ],
    ids=[
        "launch of dependents",
        "guarded wait",
        "wait on one side",
        "poll of shared memory",
        "try without a test",
        "loop until the try fails",
        "barrier",
    ],
)
def test_what_only_looks_like_a_wait_does_not_count(lines: list[str]) -> None:
    assert "before-wait" in _codes([*lines, _READ, "EXIT"])


def test_a_plain_load_in_a_loop_is_no_poll() -> None:
    lines = [".L_x_1:", "LDG.E R8, desc[UR4][R4.64]", _TEST]
    assert _codes([*lines, "@!P0 BRA `(.L_x_1)", "EXIT"]) == ["before-wait"]


@pytest.mark.parametrize(
    "step", ["IADD3 R9, R9, 0x1, RZ", "UIADD3 UR6, UR6, -0x1, URZ", "CS2R R9, SR_CLOCKLO"]
)
def test_a_poll_that_gives_up_is_no_wait(step: str) -> None:
    register = step.split()[1].rstrip(",")
    lines = [".L_x_1:", _POLL, step, f"ISETP.LT.AND P1, PT, {register}, R11, PT"]
    lines += ["ISETP.EQ.AND P0, PT, R8, RZ, P1", "@P0 BRA `(.L_x_1)"]
    assert _codes([*lines, _READ, "EXIT"]) == ["before-wait", "before-wait"]
    # It is one where giving up ends the kernel.
    test = ["ISETP.NE.U32.AND P2, PT, R8, RZ, PT", "@!P2 EXIT"]
    assert _codes([*lines, *test, _READ, "EXIT"]) == []


def test_a_count_that_the_test_does_not_use_does_not_matter() -> None:
    lines = [".L_x_1:", "IADD3 R9, R9, 0x1, RZ", _POLL, _TEST]
    assert _codes([*lines, "@!P0 BRA `(.L_x_1)", _READ, "EXIT"]) == []


_ONE_THREAD = ["ISETP.NE.U32.AND P0, PT, R10, RZ, PT", "@P0 BRA `(.L_x_1)", "ACQBULK", ".L_x_1:"]
_MEET = "BAR.SYNC.DEFER_BLOCKING 0x0"


def test_a_wait_of_one_thread_counts_for_all_after_they_meet() -> None:
    assert _codes([*_ONE_THREAD, _MEET, _READ, "EXIT"]) == []
    assert _codes([*_ONE_THREAD, _READ, _MEET, "EXIT"]) == ["before-wait"]
    # A barrier of some threads only.
    some = "BAR.SYNC.DEFER_BLOCKING 0x1, 0x40"
    assert _codes([*_ONE_THREAD, some, _READ, "EXIT"]) == ["before-wait"]
    # Which threads take the branch depends on a parameter, so perhaps none does.
    by_count = ["LDC R10, c[0x0][0x228]", *_ONE_THREAD, _MEET, _READ, "EXIT"]
    assert _codes(by_count) == ["before-wait"]


_ONE_OF_A_WARP = [
    "SHF.R.U32.HI R11, RZ, 0x5, R10",
    "ISETP.NE.U32.AND P0, PT, R11, RZ, PT",
    "@P0 BRA `(.L_x_2)",
    "ELECT P0, URZ, PT",
    "@!P0 BRA `(.L_x_2)",
]


def test_the_elected_thread_of_a_warp_may_poll_for_all() -> None:
    polling = [*_ONE_OF_A_WARP, *_POLL_LOOP, ".L_x_2:"]
    assert _codes([*polling, _MEET, _READ, "EXIT"]) == []
    assert _codes([*polling, _READ, "EXIT"]) == ["before-wait"]


def test_a_branch_that_no_thread_index_decides_does_not_split_threads() -> None:
    # Inside the elected thread's part the poll is left out for a small count.
    lines = [*_ONE_OF_A_WARP, "LDC R12, c[0x0][0x228]", "ISETP.LT.AND P1, PT, R12, 0x4, PT"]
    lines += ["@P1 BRA `(.L_x_2)", *_POLL_LOOP, ".L_x_2:", _MEET, _READ, "EXIT"]
    assert _codes(lines) == ["before-wait"]


def test_a_loop_over_the_thread_index_does_not_split_threads() -> None:
    skipped = ["ISETP.GT.AND P0, PT, R10, RZ, PT", "@!P0 BRA `(.L_x_2)"]
    body = ["IADD3 R10, R10, -0x1, RZ", "ISETP.GT.AND P0, PT, R10, RZ, PT", "@P0 BRA `(.L_x_1)"]
    lines = [".L_x_1:", *body, _MEET, _READ, "EXIT"]
    assert _codes(lines) == ["before-wait"]
    assert _codes([*skipped, "ACQBULK", ".L_x_2:", _MEET, _READ, "EXIT"]) == []


_INIT = ["S2UR UR5, SR_CgaCtaId", "UMOV UR4, 0x400", "ULEA UR9, UR5, UR4, 0x18"]
_UNTIL = [".L_x_9:", _TRY, "@!P0 BRA `(.L_x_9)"]
_ARRIVE = "SYNCS.ARRIVE.TRANS64 RZ, [UR9], R12"


def test_an_mbarrier_passes_on_a_wait_only_if_an_arrival_comes_after_one() -> None:
    assert _codes([*_INIT, "ACQBULK", _ARRIVE, *_UNTIL, _READ, "EXIT"]) == []
    assert _codes([*_INIT, _ARRIVE, *_UNTIL, _READ, "ACQBULK", "EXIT"]) == ["before-wait"]


def test_arrivals_on_another_mbarrier_do_not_matter() -> None:
    other = ["UIADD3 UR10, UR9, 0x8, URZ", "@P1 BRA `(.L_x_1)", "ACQBULK"]
    other += ["SYNCS.ARRIVE.TRANS64 RZ, [UR10], R12", ".L_x_1:"]
    assert _codes([*_INIT, _ARRIVE, *other, *_UNTIL, _READ, "EXIT"]) == ["before-wait"]
    same = [line.replace("UR10], R12", "UR9], R12") for line in other]
    assert _codes([*_INIT, _ARRIVE, *same, *_UNTIL, _READ, "EXIT"]) == []


def test_a_mailbox_needs_a_poll_of_its_own() -> None:
    mailbox = "mailbox = [0]"
    assert _codes(["ACQBULK", _READ, "EXIT"], mailbox) == ["mailbox-before-poll"]
    assert _codes([_READ, "ACQBULK", "EXIT"], mailbox) == ["before-wait"]
    poll = [".L_x_1:", "LDG.E.STRONG.SYS R8, desc[UR4][R2.64]"]
    poll += [_TEST, "@!P0 BRA `(.L_x_1)"]
    assert _codes(["ACQBULK", *poll, _READ, "EXIT"], mailbox) == []


def test_a_launch_after_all_predecessors_is_a_wait_for_activations_only() -> None:
    declared = "dependent_launch = false\n"
    assert _codes([_READ, "EXIT"], declared) == []
    assert _codes([_READ, "EXIT"], declared + "mailbox = [0]") == ["mailbox-before-poll"]
    noncoherent = "LDG.E.CONSTANT R0, desc[UR4][R2.64]"
    assert _codes([noncoherent, "EXIT"], declared) == ["non-coherent"]
    assert _codes([noncoherent, "EXIT"], declared + "static = [0]") == []


@pytest.mark.parametrize(
    "read",
    [
        "LDG.E.CONSTANT R0, desc[UR4][R2.64]",
        "LDG.E.128.CONSTANT R20, desc[UR4][R2.64+0x10]",
        "TLD.LZ R0, R2, R4, UR4, 1D, 0x1",
    ],
)
def test_the_non_coherent_path_is_a_finding_even_after_the_wait(read: str) -> None:
    assert "non-coherent" in _codes(["ACQBULK", read, "EXIT"])


@pytest.mark.parametrize(
    ("read", "counts"),
    [
        ("LDGSTS.E.BYPASS.128 [R7+0x800], desc[UR6][R2.64]", True),
        ("LD.E R0, desc[UR6][R2.64]", True),
        ("ATOMG.E.ADD.STRONG.GPU PT, R8, desc[UR6][R2.64], R9", True),
        ("REDG.E.ADD.STRONG.GPU desc[UR6][R2.64], R9", False),
        ("STG.E desc[UR6][R2.64], R9", False),
        ("CCTL.E.PF2 [R2]", False),
        ("@!PT LDG.E R0, desc[UR6][R2.64]", False),
    ],
)
def test_which_accesses_are_reads(read: str, counts: bool) -> None:
    assert (_codes([read, "ACQBULK", "EXIT"]) == ["before-wait"]) is counts


def test_a_subroutine_is_followed_from_each_call() -> None:
    lines = ["MOV R20, 0x60", "CALL.REL.NOINC `(.L_x_7)", "ACQBULK"]
    lines += ["MOV R20, 0x80", "CALL.REL.NOINC `(.L_x_7)", _READ, "EXIT"]
    lines += [".L_x_7:", "FADD R30, R30, R30", "RET.REL.NODEC R20 `(k)"]
    audit = _audit(lines)
    assert [i.at for i in audit.kernel.instructions if i.text == "ACQBULK"] == [0x50]
    # The first call returns behind the wait, as its link says.
    assert [finding.code for finding in audit.findings] == ["before-wait"]
    lines[0] = "MOV R20, 0x50"
    assert _codes(lines) == []


@pytest.mark.parametrize(
    ("jump", "codes"),
    [
        ("BRX R8 -0x40", ["undecided"]),
        ('BRX R8 -0x40 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*)', ["before-wait"]),
        ("CALL.ABS.NOINC `(elsewhere)", ["undecided"]),
    ],
)
def test_a_jump_that_cannot_be_followed_is_a_finding(jump: str, codes: list[str]) -> None:
    lines = [jump, ".L_x_1:", "ACQBULK", ".L_x_2:", _READ, "EXIT"]
    assert _codes(lines) == codes


# The register is zero, and grows, until a first round of the loop gives it an address.
_SET_LATE = [
    "CS2R R2, SRZ",
    ".L_x_5:",
    "ISETP.NE.U32.AND P1, PT, R10, RZ, PT",
    "@P1 BRA `(.L_x_6)",
    "{source}",
    ".L_x_6:",
    _READ,
    "IADD3 R2, P2, R2, 0x440, RZ",
    "IADD3.X R3, RZ, R3, RZ, P2, !PT",
    "BRA `(.L_x_5)",
]


@pytest.mark.parametrize(
    ("source", "wait", "codes"),
    [
        ("LDC.64 R2, c[0x0][0x228]", [], []),
        ("LDC.64 R2, c[0x0][0x210]", ["ACQBULK"], []),
        ("LDC.64 R2, c[0x0][0x210]", [], ["before-wait"]),
        ("LDG.E.64 R2, desc[UR4][R4.64]", ["ACQBULK"], ["unknown-provenance"]),
        ("IMAD.WIDE.U32 R2, R10, 0x10, RZ", ["ACQBULK"], ["unknown-provenance"]),
    ],
    ids=["weight", "activation", "activation too early", "loaded address", "no address at all"],
)
def test_an_address_that_is_set_late_is_what_it_is_set_to(
    source: str, wait: list[str], codes: list[str]
) -> None:
    lines = [*wait, *(line.format(source=source) for line in _SET_LATE), "EXIT"]
    assert _codes(lines) == codes
