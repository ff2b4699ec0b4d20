"""`python -m k3decode.audit.own_kernels [OP ...]`: compile this package's kernels and audit them.

Kernels of one variant are audited together, since they are launched one after the other. With
`--typical` only what CI compiles. Exit code 1 with findings, or where something does not compile;
2 where there is no compiler, and nothing is audited.
`--json` writes one line for each kernel, `--table` one row for each op and architecture. Needs
nvidia-cutlass-dsl and nvidia-cuda-nvdisasm, and no GPU.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from k3decode.audit.__main__ import audit_files, own_declarations
from k3decode.audit.declaration import Declaration
from k3decode.audit.report import KernelReport
from k3decode.host.inputs import ARCHITECTURES
from k3decode.needed_gpu import require_compiler
from k3decode.op import Op
from k3decode.registry import OPS, op_named

__all__ = ["audit_variant", "main", "table"]

# Read by the compiler when it is imported; without it no machine code is kept in memory.
_KEEP = {"CUTE_DSL_KEEP": "cubin,ptx"}
_COLUMNS = (
    "op",
    "architecture",
    "kernels",
    "clean",
    "reads",
    "static before a wait",
    "settled before a wait",
    "launched as dependents",
)


def audit_variant(op: str, variant: str, architecture: str) -> list[KernelReport]:
    """Compile one variant and audit its kernels, which explain themselves by their PTX."""
    compiled = op_named(op).variants[variant](architecture)
    paths = []
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(compiled if isinstance(compiled, tuple) else (compiled,)):
            path = Path(folder, f"{op}.{variant}.{number}.cubin")
            path.write_bytes(bytes(part.artifacts.CUBIN))
            if part.artifacts.PTX is not None:
                path.with_suffix(".ptx").write_text(str(part.artifacts.PTX))
            paths.append(path)
        reports = list(audit_files(paths, _declared()))
    return [KernelReport(Path(one.file).name, one.audit, one.ptx) for one in reports]


@cache
def _declared() -> tuple[Declaration, ...]:
    return tuple(own_declarations())


def table(rows: Sequence[tuple[str, KernelReport]]) -> str:
    """A row for each op and architecture, in Markdown."""
    groups: dict[tuple[str, str], list[KernelReport]] = {}
    for op, report in rows:
        groups.setdefault((op, report.audit.kernel.target), []).append(report)
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    for (op, architecture), reports in groups.items():
        numbers = [
            len(reports),
            sum(not report.audit.findings for report in reports),
            sum(len(report.audit.loads) for report in reports),
            sum(report.loads()["static before a wait"] for report in reports),
            sum(report.loads()["settled before a wait"] for report in reports),
            sum(report.audit.facts.dependent_launch for report in reports),
        ]
        lines.append(f"| `{op}` | {architecture} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    options = _options(arguments)
    rows: list[tuple[str, KernelReport]] = []
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({**_KEEP, "CUTE_DSL_DUMP_DIR": folder})
        for op, variant, architecture in _places(options):
            try:
                reports = audit_variant(op.name, variant, architecture)
            # Whatever the compiler raises is that variant's outcome; the next one still compiles.
            except Exception as error:
                print(f"{op.name} {variant} {architecture}: {error!r}", file=sys.stderr)
                failed = True
                continue
            for report in reports:
                rows.append((op.name, report))
                if not options.table:
                    print(report.record() if options.json else report.text(), flush=True)
    if options.table:
        print(table(rows))
    return 1 if failed or not rows or any(r.audit.findings for _, r in rows) else 0


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m k3decode.audit.own_kernels", description=__doc__
    )
    parser.add_argument("op", nargs="*", help="ops to audit; all of them by default")
    parser.add_argument("--architecture", action="append", choices=list(ARCHITECTURES.values()))
    parser.add_argument("--typical", action="store_true", help="what CI compiles")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="write JSON lines")
    how.add_argument("--table", action="store_true", help="write a table in Markdown")
    options = parser.parse_args(arguments)
    try:
        options.ops = [op_named(name) for name in options.op] or list(OPS)
    except ValueError as error:
        parser.error(str(error))
    require_compiler(parser)
    return options


def _places(options: Any) -> Iterator[tuple[Op, str, str]]:
    for op in options.ops:
        typical = op.typical_variants or list(op.variants)[-1:]
        for variant in typical if options.typical else op.variants:
            for architecture in options.architecture or ARCHITECTURES.values():
                yield op, variant, architecture


if __name__ == "__main__":
    sys.exit(main())
