"""`python -m k3decode.check [OP ...]`: run cases on the GPU and judge them.

One line per case on stdout, or one JSON object per line with `--json`. The exit code is 1 when a
case failed or could not be judged. `--adapter OP=MODULE:FUNCTION` judges somebody else's kernel:
the function takes the op's launch parameters.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, cast

import torch

from k3decode.op import Case, Launch, Op
from k3decode.registry import OPS, op_named

__all__ = ["CaseReport", "check_case", "check_op", "main"]

SCHEMA = "k3decode.check/1"


@dataclass(frozen=True)
class CaseReport:
    """What became of one case."""

    op: str
    case: str
    group: str
    outcome: Literal["passed", "failed", "errored"]
    worst: float | None
    """Largest error over what is allowed, all outputs; None where an output has no number."""
    sentences: tuple[str, ...]
    """What is wrong, one sentence per output."""

    def line(self) -> str:
        """The report as one line of text."""
        worst = "" if self.worst is None else f"  {self.worst:.2f} of the allowed error"
        text = f"{self.outcome:8}{self.op:10} {self.group:11}{self.case}{worst}"
        return "\n         ".join([text, *self.sentences])

    def record(self) -> str:
        """The report as one line of JSON."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, allow_nan=False)


def check_case(op: Op, case: Case, launch: Launch, device: torch.device) -> CaseReport:
    """Run the kernel, then the reference, and compare."""

    def report(
        outcome: Literal["passed", "failed", "errored"],
        worst: float | None,
        sentences: Sequence[str],
    ) -> CaseReport:
        return CaseReport(op.name, case.name, case.group, outcome, worst, tuple(sentences))

    trial = case.prepare(launch, device)
    try:
        trial.run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    # Whatever a kernel raises is that case's outcome, and the next case still runs.
    except Exception as error:
        return report("errored", None, [f"{type(error).__name__}: {error}"])
    judgements = trial.judge()
    bad = [f"{found.output}: {found.sentence}" for found in judgements if not found.passed]
    finite = [found.worst for found in judgements if found.worst != float("inf")]
    worst = max(finite) if len(finite) == len(judgements) else None
    return report("failed" if bad else "passed", worst, bad)


def check_op(
    op: Op, launch: Launch, device: torch.device, *, groups: Sequence[str] = ()
) -> Iterator[CaseReport]:
    """Check all cases of an op, or those of some groups."""
    for case in op.cases:
        if not groups or case.group in groups:
            yield check_case(op, case, launch, device)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.check", description=__doc__)
    parser.add_argument("op", nargs="*", help="ops to check; all of them by default")
    parser.add_argument("--json", action="store_true", help="write JSON lines")
    parser.add_argument("--group", action="append", choices=["smoke", "corner", "production"])
    parser.add_argument("--adapter", action="append", default=[], metavar="OP=MODULE:FUNCTION")
    options = parser.parse_args(arguments)
    try:
        ops = [op_named(name) for name in options.op] or list(OPS)
        adapters = dict(_adapter(text) for text in options.adapter)
    except ValueError as error:
        parser.error(str(error))
    if not torch.cuda.is_available():
        parser.error("expected a CUDA device, found none: kernels run on a GPU only")
    reports = []
    for op in ops:
        launch = adapters.get(op.name, op.launch)
        for report in check_op(op, launch, torch.device("cuda"), groups=options.group or ()):
            print(report.record() if options.json else report.line(), flush=True)
            reports.append(report)
    bad = sum(report.outcome != "passed" for report in reports)
    print(f"{len(reports) - bad} of {len(reports)} cases passed", file=sys.stderr)
    return 1 if bad or not reports else 0


def _adapter(text: str) -> tuple[str, Launch]:
    name, _, target = text.partition("=")
    module, _, function = target.partition(":")
    if not (module and function):
        raise ValueError(f"expected OP=MODULE:FUNCTION, found '{text}'")
    return op_named(name).name, cast(Launch, getattr(importlib.import_module(module), function))


if __name__ == "__main__":
    sys.exit(main())
