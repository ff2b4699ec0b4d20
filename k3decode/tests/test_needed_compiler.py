"""Without CuTe DSL the commands that compile say so, and end with 2."""

import subprocess
import sys

import pytest

from k3decode import export
from k3decode.audit import own_kernels
from k3decode.needed_compiler import missing_compiler

# Runs a module where CuTe DSL cannot be imported.
WITHOUT = """
import runpy
import sys
sys.modules.update({"cuda": None, "cuda.bindings": None, "cutlass": None})
sys.argv = ["program", "--commit", "c"]
runpy.run_module(MODULE, run_name="__main__")
"""
SENTENCE = "expected CuTe DSL to compile kernels, found no module cutlass and no module "


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cuda", "cuda.bindings", "cutlass"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_compiler")
def test_what_is_missing_is_named() -> None:
    expected = f"{SENTENCE}cuda.bindings: install nvidia-cutlass-dsl"
    assert missing_compiler() == expected


@pytest.mark.parametrize("command", [export.main, own_kernels.main])
@pytest.mark.usefixtures("no_compiler")
def test_nothing_is_compiled_without_a_compiler(
    command: object, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    words = [str(tmp_path)] if command is export.main else ["--json"]
    with pytest.raises(SystemExit) as end:
        command(words)  # type: ignore[operator]
    assert end.value.code == 2
    output = capsys.readouterr()
    assert SENTENCE in output.err
    assert output.out == ""


@pytest.mark.parametrize("module", ["layer_bench", "layer_bench.versus_stock"])
def test_the_layer_bench_needs_no_compiler_to_say_what_it_lacks(module: str) -> None:
    code = WITHOUT.replace("MODULE", repr(f"k3decode.{module}"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "error: expected a CUDA device, found none" in done.stderr
