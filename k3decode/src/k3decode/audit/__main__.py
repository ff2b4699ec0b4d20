"""`python -m k3decode.audit FILE...`: can a kernel read what others may still write?

FILE is a .cubin, PTX, or the text that nvdisasm prints of a .cubin. Exit code 0: clean; 1: there
are findings; 2: a file or a declaration could not be read. A .ptx of the same name beside a .cubin
is used to explain findings. What is static is declared beside this package's kernels; for other
kernels `--declarations FILE.toml` does it (see k3decode/docs/audit.md).
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from k3decode.audit.chain import settle
from k3decode.audit.declaration import Declaration, declaration_for, read_declarations
from k3decode.audit.disassembler import disassemble
from k3decode.audit.errors import UnreadableInputError
from k3decode.audit.program import Kernel
from k3decode.audit.ptx import read_ptx
from k3decode.audit.report import KernelReport
from k3decode.audit.rules import audit_kernel
from k3decode.audit.sass import read_sass

__all__ = ["audit_files", "main", "own_declarations"]

_BAD_INPUT = 2
_ELF = b"\x7fELF"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.audit", description=__doc__)
    parser.add_argument("file", nargs="+", type=Path, help=".cubin, .ptx or text of nvdisasm")
    parser.add_argument(
        "--declarations", action="append", type=Path, default=[], metavar="FILE.toml"
    )
    parser.add_argument("--json", action="store_true", help="write JSON lines, one for each kernel")
    options = parser.parse_args(arguments)
    findings = 0
    try:
        declarations = [d for path in options.declarations for d in _declarations(path)]
        declarations += own_declarations()
        for report in audit_files(options.file, declarations):
            print(report.record() if options.json else report.text(), flush=True)
            findings += len(report.audit.findings)
    except UnreadableInputError as error:
        print(error, file=sys.stderr)
        return _BAD_INPUT
    return 1 if findings else 0


def own_declarations() -> list[Declaration]:
    """What this package's kernels declare, each beside its device code."""
    folder = Path(__file__).resolve().parents[1] / "ops"
    return [d for path in sorted(folder.glob("*/audit.toml")) for d in _declarations(path)]


def _declarations(path: Path) -> tuple[Declaration, ...]:
    try:
        return read_declarations(_text(path))
    except UnreadableInputError as error:
        raise UnreadableInputError(f"{path}: {error}") from error


def audit_files(
    paths: Sequence[Path], declarations: Sequence[Declaration]
) -> Iterator[KernelReport]:
    """Audit all kernels of all files, which may be each other's predecessors.

    Raises:
        UnreadableInputError: a file cannot be read, or a declaration does not fit a kernel.
    """
    found = [(path, kernel) for path in paths for kernel in _kernels(path)]
    audits = [audit_kernel(kernel, declaration_for(kernel, declarations)) for _, kernel in found]
    explaining = {path: _beside(path) for path in paths}
    for (path, kernel), audit in zip(found, settle(audits), strict=True):
        ptx = explaining[path].get(kernel.name)
        known = None if ptx is None else audit_kernel(ptx, declaration_for(ptx, declarations))
        yield KernelReport(str(path), audit, known)


def _beside(path: Path) -> dict[str, Kernel]:
    """Kernels of the PTX of the same name."""
    ptx = path.with_suffix(".ptx")
    if ptx == path or not ptx.is_file():
        return {}
    return {kernel.name: kernel for kernel in _kernels(ptx)}


def _kernels(path: Path) -> list[Kernel]:
    """Kernels of a file, by what it holds.

    Raises:
        UnreadableInputError: it cannot be read, or holds none.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(_ELF))
    except OSError as error:
        raise UnreadableInputError(f"{path}: expected a file, found {error.strerror}") from error
    try:
        if start == _ELF:
            return read_sass(disassemble(path))
        text = _text(path)
        is_ptx = path.suffix == ".ptx" or ".entry" in text
        return read_ptx(text) if is_ptx else read_sass(text)
    except UnreadableInputError as error:
        sentence = str(error)
        raise UnreadableInputError(
            sentence if sentence.startswith(str(path)) else f"{path}: {sentence}"
        ) from error


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise UnreadableInputError(f"expected a file, found {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnreadableInputError("expected text or a .cubin, found other bytes") from error


if __name__ == "__main__":
    sys.exit(main())
