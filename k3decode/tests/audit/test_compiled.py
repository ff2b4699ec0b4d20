"""The whole way with the real compiler and the real nvdisasm, for two of the small kernels."""

import subprocess
import sys
from pathlib import Path

import pytest

from k3decode.audit import __main__ as command
from k3decode.audit.sass import read_sass

from .expectations import ARCHITECTURES, EXPECTED, audited, said

pytestmark = pytest.mark.compiled

_NAMES = ("hoisted_activation", "tensor_copy_of_weights")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kernels, compiled by a process of its own: the compiler reads settings when imported."""
    path = tmp_path_factory.mktemp("kernels")
    arguments = ["--folder", str(path), "--cubin", *_NAMES]
    subprocess.run(
        [sys.executable, "-m", "tests.audit.fixture_files", *arguments],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
    )
    return path


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", _NAMES)
def test_fresh_machine_code_gets_what_the_fixtures_get(
    name: str, architecture: str, folder: Path
) -> None:
    (kernel,) = read_sass((folder / f"{name}.{architecture}.sass").read_text())
    assert said(audited(kernel)) == EXPECTED[name]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_cubin_is_disassembled_by_the_command(
    architecture: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(folder / f"hoisted_activation.{architecture}.cubin")]) == 1
    out = capsys.readouterr().out
    assert f"({architecture})" in out
    assert "decided on SASS" in out
    assert "before-wait" in out


def test_what_is_no_machine_code_is_refused_by_nvdisasm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.cubin"
    path.write_bytes(b"\x7fELF and nothing else")
    assert command.main([str(path)]) == 2
    assert "k.cubin: nvdisasm refuses it" in capsys.readouterr().err
