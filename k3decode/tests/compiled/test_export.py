"""Kernels that were compiled ahead of time are loaded in a process whose compiler raises."""

import subprocess
import sys
from pathlib import Path

import pytest

from k3decode import export, library_check
from k3decode.host.kernel_library import VARIABLE, open_library

pytestmark = pytest.mark.compiled

# Loading needs no GPU. A launch would: it is shown by `check --kernels` there.
LOAD = """
import sys
from k3decode.host import compilation
from k3decode.host.kernel_library import PreparedKernelError
from k3decode.registry import op_named

compilation.forbid_compiler()
(compile_variant,) = op_named("embedding").variants.values()
print(callable(compile_variant("sm_90a")))
try:
    compile_variant("sm_100a")
except PreparedKernelError as error:
    print(error)
"""


def test_an_exported_kernel_loads_without_a_compiler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert export.main([str(tmp_path), "embedding", "--architecture", "sm_90a"]) == 0
    assert capsys.readouterr().out.endswith(f" MB, in {tmp_path}\n")
    assert len(open_library(tmp_path).symbols) == 1
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
    loaded, refusal = done.stdout.splitlines()
    assert loaded == "True"
    assert refusal.startswith("expected EmbeddingConfig(hidden_size=7168) for sm_100a in ")


def test_kernels_for_gpus_that_are_not_here_are_elf_files_with_their_symbols(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    asked = ("--architecture", "sm_100a", "--architecture", "sm_103a")
    assert export.main([str(tmp_path), "embedding", *asked]) == 0
    capsys.readouterr()
    assert library_check.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 kernels for sm_100a, 1 kernels for sm_103a\n"
    found = {
        image.capability: image.kernels
        for path in tmp_path.glob("*.o")
        for image in library_check.device_images(path.read_bytes())
    }
    assert sorted(found) == [100, 103]
    assert all(name.startswith("kernel_") for names in found.values() for name in names)
