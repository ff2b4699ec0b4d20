"""`python -m k3decode.compile_report [OP ...]`: compile every kernel without a GPU.

For each variant and architecture: registers per thread, shared memory, bytes of stack and the
local memory instructions that spilling causes. A spill makes the exit code 1. One line of JSON per
variant with `--json`. Needs nvidia-cutlass-dsl and nvdisasm; knows nothing about speed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from k3decode.host.cubin import kernel_usage
from k3decode.host.inputs import ARCHITECTURES
from k3decode.op import Op
from k3decode.registry import OPS, op_named

__all__ = ["VariantReport", "compile_variant_report", "main"]

SCHEMA = "k3decode.compile/1"
# Local loads and stores in SASS; on a kernel without local arrays they are spills.
_LOCAL_ACCESS = re.compile(r"\b(?:LDL|STL)\b")
_SHARED_TYPE = re.compile(
    r"^(!memref_smem\w*) = !cute\.memref<i8, smem, [^\"]*\"(\d+):1\">", re.MULTILINE
)
_SHARED_ALLOCATION = re.compile(r"cute\.memref\.alloca\(\) \{smem\.[^}]*\} : (!memref_smem\w*)")
# Read by the compiler when it is imported; without it no machine code is kept in memory.
_KEEP = {"CUTE_DSL_KEEP": "cubin,ir"}


@dataclass(frozen=True)
class VariantReport:
    """One compiled variant."""

    op: str
    variant: str
    architecture: str
    registers: int
    """Per thread."""
    shared_bytes: int
    """Shared memory that the kernel allocates for a CTA, without what the driver reserves."""
    stack_bytes: int
    local_accesses: int
    """Local memory instructions in SASS."""
    code_bytes: int

    @property
    def spills(self) -> bool:
        """Whether registers are kept in local memory."""
        return self.stack_bytes > 0 or self.local_accesses > 0

    def line(self) -> str:
        """The report as one line of text."""
        word = "SPILLS " if self.spills else ""
        return (
            f"{self.op:10} {self.variant:18} {self.architecture:8} {self.registers:4} registers "
            f"{self.shared_bytes:6} B shared {self.stack_bytes:4} B stack "
            f"{self.local_accesses:4} local accesses {self.code_bytes:6} B code {word}".rstrip()
        )

    def record(self) -> str:
        """The report as one line of JSON."""
        return json.dumps({"schema": SCHEMA, **asdict(self), "spills": self.spills})


def compile_variant_report(op: str, variant: str, architecture: str) -> VariantReport:
    """Compile one variant and read its machine code."""
    compiled = op_named(op).variants[variant](architecture)
    cubin = bytes(compiled.artifacts.CUBIN)
    usage = kernel_usage(cubin)
    return VariantReport(
        op=op,
        variant=variant,
        architecture=architecture,
        registers=usage.registers,
        shared_bytes=_shared_bytes(str(compiled.artifacts.MLIR)),
        stack_bytes=usage.stack_bytes,
        local_accesses=len(_LOCAL_ACCESS.findall(_disassemble(cubin))),
        code_bytes=usage.code_bytes,
    )


def _shared_bytes(program: str) -> int:
    """Sum of the allocations in the compiler's program, in bytes."""
    sizes = {name: int(size) for name, size in _SHARED_TYPE.findall(program)}
    return sum(sizes[name] for name in _SHARED_ALLOCATION.findall(program))


def _disassemble(cubin: bytes) -> str:
    """SASS of an image, by the nvdisasm on the path or of nvidia-cuda-nvdisasm.

    Raises:
        FileNotFoundError: there is no nvdisasm.
    """
    beside = Path(sysconfig.get_paths()["purelib"], "nvidia", "cu13", "bin", "nvdisasm")
    program = shutil.which("nvdisasm") or (str(beside) if beside.exists() else None)
    if program is None:
        raise FileNotFoundError("expected nvdisasm, found none: install nvidia-cuda-nvdisasm")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([program, "-c", file.name], capture_output=True, check=True)
    return done.stdout.decode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.compile_report", description=__doc__)
    parser.add_argument("op", nargs="*", help="ops to compile; all of them by default")
    parser.add_argument("--architecture", action="append", choices=list(ARCHITECTURES.values()))
    parser.add_argument("--json", action="store_true", help="write JSON lines")
    options = parser.parse_args(arguments)
    try:
        ops = [op_named(name) for name in options.op] or list(OPS)
    except ValueError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({**_KEEP, "CUTE_DSL_DUMP_DIR": folder})
        spilling = _report(ops, options)
    if spilling:
        print(f"{spilling} variants spill registers", file=sys.stderr)
    return 1 if spilling else 0


def _report(ops: Sequence[Op], options: argparse.Namespace) -> int:
    """Print a report per variant; returns how many spill."""
    spilling = 0
    for op in ops:
        for variant in op.variants:
            for architecture in options.architecture or ARCHITECTURES.values():
                report = compile_variant_report(op.name, variant, architecture)
                print(report.record() if options.json else report.line(), flush=True)
                spilling += report.spills
    return spilling


if __name__ == "__main__":
    sys.exit(main())
