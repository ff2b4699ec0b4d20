"""`python -m k3decode.compile_report [OP ...]`: compile every kernel without a GPU.

For each kernel, variant and architecture: registers per thread, shared memory, bytes of stack, the
local memory instructions that spilling causes, and how many instructions of which family. A spill
that is not listed with a reason makes the exit code 1. One line of JSON per kernel with `--json`.
`--typical` compiles the variants of each op that CI compiles. With `--cache FOLDER` what was
compiled before from the same sources is read instead. Needs nvidia-cutlass-dsl and
nvidia-cuda-nvdisasm; knows nothing about speed.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from k3decode.host.cubin import kernel_usages
from k3decode.host.inputs import ARCHITECTURES
from k3decode.host.kernel_library import sources_sha256
from k3decode.host.sass import disassemble, instruction_mix, local_accesses
from k3decode.op import Op
from k3decode.registry import OPS, op_named
from k3decode.spill_allowance import Place, read_allowed_spills, spill_problems

__all__ = ["KernelReport", "compile_variant_reports", "main"]

SCHEMA = "k3decode.compile/2"
_SHARED_TYPE = re.compile(
    r"^(!memref_smem\w*) = !cute\.memref<i8, smem, [^\"]*\"(\d+):1\">", re.MULTILINE
)
_SHARED_ALLOCATION = re.compile(r"cute\.memref\.alloca\(\) \{smem\.[^}]*\} : (!memref_smem\w*)")
# Read by the compiler when it is imported; without it no machine code is kept in memory.
_KEEP = {"CUTE_DSL_KEEP": "cubin,ir"}


@dataclass(frozen=True)
class KernelReport:
    """One kernel of one compiled variant."""

    op: str
    variant: str
    architecture: str
    kernel: int
    """Place among the kernels of the variant."""
    registers: int
    """Per thread."""
    shared_bytes: int
    """Shared memory that a CTA allocates, without what the driver adds."""
    stack_bytes: int
    local_accesses: int
    """Local memory instructions in SASS."""
    code_bytes: int
    instructions: dict[str, int]
    """Family -> instructions in SASS."""

    @property
    def spills(self) -> bool:
        """Whether registers are kept in local memory."""
        return self.stack_bytes > 0 or self.local_accesses > 0

    @property
    def place(self) -> Place:
        """Where it stands in the list of allowed spills."""
        return self.op, self.variant, self.architecture

    def line(self) -> str:
        """The report as one line of text."""
        mix = ", ".join(f"{count} {family}" for family, count in self.instructions.items())
        word = "SPILLS " if self.spills else ""
        return (
            f"{self.op:10} {self.variant:18} {self.architecture:8} {self.registers:4} registers "
            f"{self.shared_bytes:6} B shared {self.stack_bytes:4} B stack "
            f"{self.code_bytes:6} B code {word}({mix})"
        )

    def record(self) -> str:
        """The report as one line of JSON."""
        return json.dumps({"schema": SCHEMA, **asdict(self), "spills": self.spills})


def compile_variant_reports(op: str, variant: str, architecture: str) -> list[KernelReport]:
    """Compile one variant and read its machine code."""
    compiled = op_named(op).variants[variant](architecture)
    reports: list[KernelReport] = []
    for part in compiled if isinstance(compiled, tuple) else (compiled,):
        image = bytes(part.artifacts.CUBIN)
        code = disassemble(image)
        shared = _shared_bytes(str(part.artifacts.MLIR))
        for usage in kernel_usages(image):
            report = KernelReport(
                op=op,
                variant=variant,
                architecture=architecture,
                kernel=len(reports),
                registers=usage.registers,
                shared_bytes=shared,
                stack_bytes=usage.stack_bytes,
                local_accesses=local_accesses(code[usage.name]),
                code_bytes=usage.code_bytes,
                instructions=instruction_mix(code[usage.name]),
            )
            reports.append(report)
    return reports


def _shared_bytes(program: str) -> int:
    """Sum of the allocations in the compiler's program, in bytes."""
    sizes = {name: int(size) for name, size in _SHARED_TYPE.findall(program)}
    return sum(sizes[name] for name in _SHARED_ALLOCATION.findall(program))


@dataclass(frozen=True)
class _Job:
    place: Place
    cache: Path | None

    def file(self) -> Path | None:
        """Where the reports of this place from these sources are kept."""
        if self.cache is None:
            return None
        text = "\n".join(
            (SCHEMA, *self.place, sources_sha256(self.place[0]), version("nvidia-cutlass-dsl"))
        )
        return self.cache / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.json"


def _run(job: _Job) -> list[KernelReport] | str:
    """Reports of one variant, or a sentence that says why there are none."""
    file = job.file()
    if file is not None and file.is_file():
        return [KernelReport(**entry) for entry in json.loads(file.read_text())]
    try:
        reports = compile_variant_reports(*job.place)
    # Whatever the compiler raises is that variant's outcome, and the next one still compiles.
    except Exception as error:
        return f"{' '.join(job.place)} does not compile: {type(error).__name__}: {error}"
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps([asdict(report) for report in reports]))
        partial.replace(file)
    return reports


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _options(arguments)
    allowed = read_allowed_spills()
    started = time.monotonic()
    jobs = [_Job(place, options.cache) for place in _places(options)]
    reports, problems = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({**_KEEP, "CUTE_DSL_DUMP_DIR": folder})
        for found in _outcomes(jobs, options.jobs):
            if isinstance(found, str):
                problems.append(found)
                continue
            for report in found:
                print(report.record() if options.json else report.line(), flush=True)
                reports.append(report)
    problems += spill_problems(
        {report.place for report in reports if report.spills},
        {report.place for report in reports},
        allowed,
    )
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    print(
        f"{len(reports)} kernels of {len(jobs)} variants in {time.monotonic() - started:.0f} s",
        file=sys.stderr,
    )
    return 1 if problems or not reports else 0


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m k3decode.compile_report", description=__doc__)
    parser.add_argument("op", nargs="*", help="ops to compile; all of them by default")
    parser.add_argument("--architecture", action="append", choices=list(ARCHITECTURES.values()))
    parser.add_argument("--json", action="store_true", help="write JSON lines")
    parser.add_argument("--typical", action="store_true", help="what CI compiles")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep reports there")
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile")
    options = parser.parse_args(arguments)
    try:
        options.ops = [op_named(name) for name in options.op] or list(OPS)
    except ValueError as error:
        parser.error(str(error))
    return options


def _places(options: Any) -> list[Place]:
    """What to compile, an architecture after the other for each variant."""
    return [
        (op.name, variant, architecture)
        for op in options.ops
        for variant in (_typical(op) if options.typical else op.variants)
        for architecture in options.architecture or ARCHITECTURES.values()
    ]


def _typical(op: Op) -> Sequence[str]:
    return op.typical_variants or list(op.variants)[-1:]


def _outcomes(jobs: Sequence[_Job], processes: int) -> Iterator[list[KernelReport] | str]:
    if processes == 1:
        yield from map(_run, jobs)
        return
    # Fresh processes: a copy of one that has imported the compiler is not safe.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield from pool.map(_run, jobs)


if __name__ == "__main__":
    sys.exit(main())
