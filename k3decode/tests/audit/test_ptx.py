"""How PTX is read: scopes, parameters, addresses, waits."""

import pytest

from k3decode.audit.declaration import declaration_for, read_declarations
from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.ptx import read_ptx
from k3decode.audit.rules import Audit, audit_kernel

_PARAMETERS = (
    ".param .u64 k_param_0, .param .u64 .ptr .global .align 16 k_param_1, "
    ".param .align 64 .b8 k_param_2[128], .param .u32 k_param_3"
)
_SETUP = """
    ld.param.b64 %rd1, [k_param_0];
    ld.param.u64 %rd2, [k_param_1];
    mov.u32 %r1, %tid.x;
"""
_READ = "ld.global.b32 %r9, [%rd9];"


def _text(body: str) -> str:
    return f"""
//
// Generated
//
.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 128 .b8 buffer[];
.visible .entry k({_PARAMETERS})
.reqntid 128, 1, 1
{{
    .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
    {_SETUP}
    {body}
    ret;
}}
"""


def _audit(body: str, declared: str = "static = [3]") -> Audit:
    (kernel,) = read_ptx(_text(body))
    declarations = read_declarations(f'[[kernel]]\nname = "k"\n{declared}')
    return audit_kernel(kernel, declaration_for(kernel, declarations))


def _codes(body: str) -> list[str]:
    return [finding.code for finding in _audit(body).findings]


def test_parameters_have_places_and_sizes() -> None:
    (kernel,) = read_ptx(_text(""))
    places = [(p.ordinal, p.offset, p.size) for p in kernel.parameters]
    assert places == [(0, 0, 8), (1, 8, 8), (2, 64, 128), (3, 192, 4)]
    assert (kernel.name, kernel.target, kernel.dialect) == ("k", "sm_90a", "PTX")


def test_instructions_are_named_by_their_line() -> None:
    text = _text(f"{_READ}\n    griddepcontrol.wait;")
    (kernel,) = read_ptx(text)
    lines = text.splitlines()
    for instruction in kernel.instructions:
        assert instruction.text in " ".join(lines[instruction.at - 1].split())


@pytest.mark.parametrize(
    ("body", "parameters"),
    [
        ("mov.u64 %rd9, %rd1;", {"0"}),
        ("cvta.to.global.u64 %rd9, %rd1;", {"0"}),
        ("mul.wide.u32 %rd3, %r1, 4; add.s64 %rd9, %rd1, %rd3;", {"0"}),
        ("mad.wide.u32 %rd9, %r1, 4, %rd1;", {"0"}),
        ("mad.lo.s64 %rd3, %rd2, 7, 5; shl.b64 %rd3, %rd3, 2; add.s64 %rd9, %rd1, %rd3;", {"0"}),
        ("and.b64 %rd9, %rd1, -16;", {"0"}),
        ("selp.b64 %rd9, %rd1, %rd2, %p1;", {"0", "1"}),
        ("mov.u64 %rd9, %rd1; @%p1 mov.u64 %rd9, %rd2;", {"0", "1"}),
        ("sub.s64 %rd3, %rd2, %rd1; add.s64 %rd9, %rd1, %rd3;", {"0", "1"}),
        ("mov.b64 {%r3, %r4}, %rd1; mov.b64 %rd9, {%r3, %r4};", {"0"}),
        ("shfl.sync.idx.b32 %r3|%p1, %r1, 0, 31, -1; add.s64 %rd9, %rd1, 8;", {"0"}),
        ("mov.u64 %rd3, k_param_0; ld.param.u64 %rd9, [%rd3];", {"0"}),
        ("ld.param.v2.u64 {%rd3, %rd9}, [k_param_0];", {"1"}),
    ],
)
def test_an_address_is_followed_to_its_parameters(body: str, parameters: set[str]) -> None:
    (load,) = _audit(f"{body} {_READ}").loads
    assert (set(load.parameters), load.unknown) == (parameters, None)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("cvt.u64.u32 %rd9, %r1;", "no parameter"),
        ("ld.shared.b64 %rd9, [buffer];", "loaded"),
        ("mov.u64 %rd9, some_variable;", "variable of the module (some_variable)"),
        ("ld.global.u64 %rd9, [%rd1];", "loaded"),
    ],
)
def test_what_cannot_be_followed_is_said(body: str, words: str) -> None:
    load = _audit(f"{body} {_READ}").loads[-1]
    assert load.unknown is not None
    assert words in load.unknown


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ("ld.global.f32 %r9, [%rd1];", ["before-wait"]),
        ("ld.b32 %r9, [%rd1];", ["before-wait"]),
        ("ld.shared.b32 %r9, [buffer];", []),
        ("griddepcontrol.wait; ld.global.b32 %r9, [%rd1];", []),
        ("griddepcontrol.launch_dependents; ld.global.b32 %r9, [%rd1];", ["before-wait"]),
        ("griddepcontrol.wait; ld.global.nc.b32 %r9, [%rd1];", ["non-coherent"]),
        ("griddepcontrol.wait; ldu.global.b32 %r9, [%rd1];", ["non-coherent"]),
        ("cp.async.cg.shared.global [buffer], [%rd1], 16;", ["before-wait"]),
        ("cp.async.bulk.prefetch.L2.global [%rd1], 512;", []),
        ("prefetch.global.L2 [%rd1];", []),
        ("atom.global.add.u32 %r9, [%rd1], 1;", ["before-wait"]),
        ("red.global.add.u32 [%rd1], 1;", []),
        ("st.global.b32 [%rd1], %r1;", []),
        ("multimem.ld_reduce.relaxed.sys.global.add.u32 %r9, [%rd1];", ["before-wait"]),
    ],
)
def test_which_accesses_are_reads_and_too_early(body: str, codes: list[str]) -> None:
    assert _codes(body) == codes


_TENSOR_COPY = (
    "mov.b64 %rd8, k_param_2; cp.async.bulk.tensor.2d.shared::cluster.global.tile"
    ".mbarrier::complete_tx::bytes [buffer], [%rd8, {%r1, %r1}], [buffer+64];"
)


def test_a_tensor_copy_is_a_read_of_what_its_map_describes() -> None:
    (load,) = _audit(_TENSOR_COPY).loads
    assert load.parameters == ("2",)
    assert _codes(_TENSOR_COPY) == ["before-wait"]
    assert _codes("griddepcontrol.wait;" + _TENSOR_COPY) == []


_SCOPED_WAIT = """
    {
        .reg .pred P1;
        LAB_WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 P1, [buffer], 0;
        @P1 bra.uni DONE;
        bra.uni LAB_WAIT;
        DONE:
    }
"""


def test_blocks_in_braces_have_labels_and_registers_of_their_own() -> None:
    body = f"{_SCOPED_WAIT} {_SCOPED_WAIT} ld.global.b32 %r9, [%rd1];"
    (kernel,) = read_ptx(_text(body))
    assert len(kernel.labels) == 4
    assert _codes(body) == []
    assert _codes(f"ld.global.b32 %r9, [%rd1]; {_SCOPED_WAIT}") == ["before-wait"]


@pytest.mark.parametrize("kind", ["acquire.gpu", "relaxed.sys", "volatile"])
def test_a_poll_is_a_wait(kind: str) -> None:
    load = "ld.volatile.global" if kind == "volatile" else f"ld.{kind}.global"
    poll = f"$L1: {load}.b32 %r2, [%rd2]; setp.eq.s32 %p1, %r2, 0; @%p1 bra $L1;"
    assert _codes(f"{poll} ld.global.b32 %r9, [%rd1];") == []
    assert _codes(f"ld.global.b32 %r9, [%rd1]; {poll}") == ["before-wait"]
    plain = poll.replace(load, "ld.global")
    assert "before-wait" in _codes(f"{plain} ld.global.b32 %r9, [%rd1];")


def test_branch_lists_and_calls_are_followed_or_said() -> None:
    read = "ld.global.b32 %r9, [%rd1];"
    jump = "$LT: .branchtargets $L1, $L2; brx.idx %r1, $LT; $L1: griddepcontrol.wait; $L2:"
    assert _codes(f"{jump} {read}") == ["before-wait"]
    both = jump.replace("$L2:", "$L2: griddepcontrol.wait;")
    assert _codes(f"{both} {read}") == []
    assert _codes("call.uni (%r9), some_function, (%r1);") == ["undecided"]
    assert _codes("call.uni (%r9), vprintf, (%rd1, %rd2);") == []


@pytest.mark.parametrize("text", ["", ".version 8.7\n.target sm_90a", "int main() {}"])
def test_other_texts_are_refused_in_words(text: str) -> None:
    with pytest.raises(UnreadableInputError, match=r"expected PTX with a \.target"):
        read_ptx(text)


def test_a_kernel_that_does_not_end_is_refused() -> None:
    with pytest.raises(UnreadableInputError, match="a closing brace"):
        read_ptx(_text("").rstrip().removesuffix("}"))
