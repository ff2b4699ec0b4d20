"""The command line: what it prints, and its exit codes."""

import ast
import json
import os
import shutil
from pathlib import Path

import pytest

from k3decode.audit import __main__ as command
from k3decode.audit.declaration import read_declarations

from .expectations import FIXTURES

_DECLARATION = """
[[kernel]]
name = "*audited*"
parameters = ["activation", "weight", "flag", "out", "count"]
static = ["weight"]
"""


@pytest.fixture
def declarations(tmp_path: Path) -> str:
    path = tmp_path / "kernels.toml"
    path.write_text(_DECLARATION)
    return str(path)


def _fixture(name: str) -> str:
    return str(FIXTURES / name)


def test_clean_files_end_with_zero(declarations: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = [_fixture("wait_dominates.sm_90a.sass"), _fixture("weight_prefetch.sm_100a.sass")]
    assert command.main(["--declarations", declarations, *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rsplit(": ", 1)[1] for line in lines[::2]] == ["clean", "clean"]
    assert all("decided on SASS; declared; reads: " in line for line in lines[1::2])


def test_findings_end_with_one_and_are_told_with_place_path_and_ptx(
    declarations: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _fixture("wait_on_one_branch.sm_90a.sass")
    assert command.main([file, "--declarations", declarations]) == 1
    out = capsys.readouterr().out
    assert "(sm_90a): 1 finding\n" in out
    assert "before-wait at 0x00e0: `LDG.E R5, desc[UR4][R4.64]`" in out
    assert "it can read activation before the kernel has waited for it" in out
    assert "a path without a wait: 0x0000 -> 0x00e0" in out
    # The PTX of the same name lies beside it.
    assert "in PTX: ld.global, line 44 (`ld.global.b32 %r4, [%rd6]`)" in out


def test_ptx_alone_says_what_was_decided_on(
    declarations: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = shutil.copy(_fixture("hoisted_activation.sm_90a.ptx"), tmp_path)
    assert command.main([str(file), "--declarations", declarations]) == 1
    out = capsys.readouterr().out
    assert "decided on PTX alone (what an assembler moves is not seen)" in out
    assert "before-wait at line 33" in out


def test_a_read_that_only_the_assembler_moved_is_explained(
    declarations: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(_fixture("hoisted_activation.sm_90a.sass"), tmp_path / "k.sass")
    ptx = Path(_fixture("hoisted_activation.sm_90a.ptx")).read_text()
    read = next(line for line in ptx.splitlines() if "ld.global" in line)
    moved = ptx.replace(read, "").replace("griddepcontrol.wait;", f"griddepcontrol.wait;\n{read}")
    (tmp_path / "k.ptx").write_text(moved)
    assert command.main([str(tmp_path / "k.sass"), "--declarations", declarations]) == 1
    assert "every one stands after a wait: the assembler moved it" in capsys.readouterr().out


def test_json_has_one_line_for_each_kernel(
    declarations: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [_fixture("select_of_two.sm_100a.sass"), _fixture("load_after_poll.sm_90a.sass")]
    assert command.main(["--json", "--declarations", declarations, *files]) == 1
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["schema"] == second["schema"] == "k3decode.audit/1"
    assert set(first) == {
        "schema",
        "file",
        "kernel",
        "architecture",
        "decided_on",
        "declared",
        "dependent_launch",
        "loads",
        "waits",
        "findings",
    }
    (finding,) = first["findings"]
    assert set(finding) == {"code", "at", "text", "parameters", "why", "path", "ptx"}
    assert (finding["code"], finding["parameters"]) == ("before-wait", ["activation", "weight"])
    assert (first["architecture"], first["decided_on"]) == ("sm_100a", "SASS")
    assert second["findings"] == []
    assert second["loads"] == {
        "static before a wait": 1,
        "static after a wait": 0,
        "settled before a wait": 0,
        "polls": 1,
        "other": 1,
    }
    assert second["waits"] == {"griddepcontrol.wait": 0, "mbarrier try-wait": 0, "polling load": 1}


def test_without_a_declaration_weights_are_activations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main([_fixture("weight_prefetch.sm_90a.sass")]) == 1
    assert "no declaration: every parameter leads to activation memory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.cubin", None, "missing.cubin: expected a file, found No such file"),
        ("empty.ptx", b"", "empty.ptx: expected PTX with a .target"),
        ("empty.sass", b"", "empty.sass: expected text of nvdisasm"),
        ("bytes.cubin", b"\xff\xfe\x00", "bytes.cubin: expected text or a .cubin"),
        ("half.ptx", b".target sm_90a\n.entry k() {", "half.ptx: expected a closing brace"),
    ],
)
def test_bad_files_end_with_two_and_a_sentence(
    name: str,
    content: bytes | None,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert command.main([str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


def test_bad_declarations_end_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernels.toml"
    path.write_text('[[kernel]]\nname = "*"\nparameters = ["one"]')
    file = _fixture("wait_dominates.sm_90a.sass")
    assert command.main([file, "--declarations", str(path)]) == 2
    assert "as many names as" in capsys.readouterr().err
    path.write_text("not toml")
    assert command.main([file, "--declarations", str(path)]) == 2
    assert f"{path}: expected TOML" in capsys.readouterr().err


def test_machine_code_without_nvdisasm_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"purelib": str(tmp_path)})
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "k.cubin"
    path.write_bytes(b"\x7fELF")
    assert command.main([str(path)]) == 2
    assert "install nvidia-cuda-nvdisasm" in capsys.readouterr().err


def test_a_disassembler_that_does_not_end_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvdisasm"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"purelib": str(tmp_path)})
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("k3decode.audit.disassembler._TIMEOUT_S", 0.1)
    path = tmp_path / "k.cubin"
    path.write_bytes(b"\x7fELF")
    assert command.main([str(path)]) == 2
    assert "expected nvdisasm to end within 0.1 s" in capsys.readouterr().err


_OPS = Path(command.__file__).parents[1] / "ops"


@pytest.mark.parametrize("source", sorted(_OPS.glob("*/kernel.py")), ids=lambda p: p.parent.name)
def test_each_kernel_of_this_package_declares_itself(source: Path) -> None:
    declarations = read_declarations((source.parent / "audit.toml").read_text())
    found = {
        node.name: node
        for node in ast.parse(source.read_text()).body
        if isinstance(node, ast.ClassDef)
    }

    def text(node: ast.ClassDef) -> str:
        """Of a class and of those in this file that it is made of."""
        parents = [found[b.id] for b in node.bases if isinstance(b, ast.Name) and b.id in found]
        return "\n".join([ast.unparse(node), *map(text, parents)])

    classes = {
        f"*k3decodeops{source.parent.name}kernel{name}*": text(node)
        for name, node in found.items()
        if "@cute.kernel" in text(node) and not name.startswith("_")
    }
    assert {declaration.name for declaration in declarations} == set(classes)
    for declaration in declarations:
        # One that is launched as a dependent may not be judged as if it were not.
        assert declaration.dependent_launch or "use_pdl" not in classes[declaration.name]
        assert declaration.parameters


def test_own_declarations_are_those_of_the_ops() -> None:
    files = len(list(_OPS.glob("*/audit.toml")))
    assert len(command.own_declarations()) >= files >= 13
