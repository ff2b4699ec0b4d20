"""nvdisasm: machine code to text."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

from k3decode.audit.errors import UnreadableInputError

__all__ = ["disassemble"]

_TIMEOUT_S = 300


def disassemble(cubin: Path) -> str:
    """Text of a .cubin with its lists of parameters.

    Raises:
        UnreadableInputError: there is no nvdisasm, it does not know the file, or it does not end.
    """
    folder = Path(sysconfig.get_paths()["purelib"], "nvidia")
    beside = sorted(folder.glob("*/bin/nvdisasm"))
    program = str(beside[0]) if beside else shutil.which("nvdisasm")
    if program is None:
        raise UnreadableInputError(
            f"{cubin}: expected nvdisasm to read machine code, found none: install "
            "nvidia-cuda-nvdisasm"
        )
    try:
        done = subprocess.run(
            [program, str(cubin)], capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise UnreadableInputError(
            f"{cubin}: expected nvdisasm to end within {_TIMEOUT_S} s, found that it did not: "
            "audit fewer kernels at a time"
        ) from None
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())
        raise UnreadableInputError(f"{cubin}: nvdisasm refuses it: {words}")
    return done.stdout
