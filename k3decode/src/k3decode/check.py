"""`python -m k3decode.check [OP ...]`: run cases on the GPU and judge them.

One line per case on stdout, or one JSON object per line with `--json`. The exit code is 1 when a
case failed or could not be judged. `--adapter OP=MODULE:FUNCTION` judges somebody else's kernel:
the function takes what the op's own launch takes, in the same order and by the same names, and
writes the same outputs in place; it may allocate, which is recorded and no failure. `--jitter` lets
inputs arrive late (see jitter.py), `--replay FILE` runs recorded launches instead of the cases (see
recording.py), and `--kernels FOLDER` runs kernels that were exported, with the compiler replaced by
one that raises.
"""

import argparse
import importlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal, cast

import torch

from k3decode.circumstances import circumstances, typed_command
from k3decode.host.kernel_library import PreparedKernelError, use_library
from k3decode.launch_memory import LaunchMemory, metered
from k3decode.needed_gpu import require_gpu
from k3decode.op import GROUPS, Case, Launch, Op, Part
from k3decode.recording import RecordedCall, RecordingError, read_recording
from k3decode.registry import OPS, op_named

__all__ = ["CaseReport", "check_case", "check_op", "main", "replayed_cases"]

SCHEMA = "k3decode.check/2"


Late = Callable[[Launch], Launch]
"""Makes a launch one whose inputs arrive late."""


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
    argument_bytes: int | None = None
    """Device memory behind the launch's arguments; None where it did not run to its end."""
    workspace_bytes: int | None = None
    """Of it, workspaces."""
    allocated_bytes: int | None = None
    """Device memory that a launch took beside its arguments; of an op's own, any is a failure."""

    def line(self) -> str:
        """The report as one line of text."""
        worst = "" if self.worst is None else f"  {self.worst:.2f} of the allowed error"
        text = f"{self.outcome:8}{self.op:12} {self.group:11}{self.case}{worst}"
        return "\n         ".join([text, *self.sentences])

    def record(self, facts: Mapping[str, str]) -> str:
        """The report as one line of JSON, with the circumstances of its run."""
        return json.dumps({"schema": SCHEMA, **asdict(self), **facts}, allow_nan=False)


def check_case(
    op: Op, case: Case, launch: Launch, device: torch.device, *, late: Late | None = None
) -> CaseReport:
    """Run the kernel, then the reference, and compare.

    Args:
        op: what the case belongs to.
        case: shape and options.
        launch: the op's own, or another that takes what it takes.
        device: where it runs.
        late: makes a launch one whose inputs arrive late; None for none.
    """
    memory = LaunchMemory()
    used = metered(launch, memory, device, like=op.launch)
    try:
        trial = case.prepare(used if late is None else late(used), device)
        trial.run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        judgements = trial.judge()
    # Whatever a kernel raises is that case's outcome, and the next case still runs.
    except Exception as error:
        sentence = f"{type(error).__name__}: {error}"
        return CaseReport(op.name, case.name, case.group, "errored", None, (sentence,))
    bad = [f"{found.output}: {found.sentence}" for found in judgements if not found.passed]
    if launch is op.launch and (problem := memory.problem()) is not None:
        bad.append(problem)
    finite = [found.worst for found in judgements if math.isfinite(found.worst)]
    return CaseReport(
        op=op.name,
        case=case.name,
        group=case.group,
        outcome="failed" if bad else "passed",
        worst=max(finite) if len(finite) == len(judgements) else None,
        sentences=tuple(bad),
        **asdict(memory),
    )


def check_op(
    op: Op, launch: Launch, device: torch.device, *, groups: Sequence[str] = ()
) -> Iterator[CaseReport]:
    """Check all cases of an op, or those of some groups."""
    for case in op.cases:
        if not groups or case.group in groups:
            yield check_case(op, case, launch, device)


def replayed_cases(calls: Iterable[RecordedCall]) -> list[tuple[Op, Case]]:
    """Make a case of each recorded launch.

    Raises:
        RecordingError: an op has no kernel, or cannot be judged on recorded tensors.
    """
    found = []
    for place, call in enumerate(calls):
        try:
            op = op_named(call.op)
        except ValueError as error:
            raise RecordingError(f"call {place}, {call.name}: {error}") from None
        if op.replay is None:
            raise RecordingError(
                f"call {place}, {call.name}: expected an op that judges recorded launches, found "
                f"'{op.name}': leave it out of the recording"
            )
        prepare = partial(op.replay, call)
        found.append((op, Case(name=call.name, group="replay", prepare=prepare)))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m k3decode.check", description=__doc__)
    parser.add_argument("op", nargs="*", help="ops to check; all of them by default")
    parser.add_argument("--json", action="store_true", help="write JSON lines")
    parser.add_argument("--commit", help="write the run's circumstances into the JSON lines")
    parser.add_argument("--group", action="append", choices=GROUPS)
    parser.add_argument("--case", action="append", help="cases to run, by name")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th of the cases")
    parser.add_argument("--adapter", action="append", default=[], metavar="OP=MODULE:FUNCTION")
    parser.add_argument("--until-bad", action="store_true", help="stop at the first bad case")
    parser.add_argument("--jitter", type=int, metavar="SEED", help="let inputs arrive late")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="run recorded launches")
    parser.add_argument("--kernels", type=Path, metavar="FOLDER", help="run exported kernels")
    options = parser.parse_args(arguments)
    try:
        cases = _chosen(options)
        adapters = dict(_adapter(text) for text in options.adapter)
        if options.kernels is not None:
            use_library(options.kernels)
    except (ValueError, PreparedKernelError) as error:
        parser.error(str(error))
    require_gpu(parser)
    if options.kernels is not None:
        from k3decode.host.compilation import forbid_compiler  # noqa: PLC0415

        forbid_compiler()
    device = torch.device("cuda")
    # Of kernels from elsewhere nothing is declared.
    names = dict.fromkeys(op.name for op, _ in cases if op.name not in adapters)
    check = check_case if options.jitter is None else _late_check(device, options.jitter, names)
    if check is None:
        return 1
    facts = (
        {}
        if options.commit is None
        else circumstances(options.commit, typed_command("k3decode.check", arguments))
    )
    reports = []
    for op, case in cases:
        report = check(op, case, adapters.get(op.name, op.launch), device)
        print(report.record(facts) if options.json else report.line(), flush=True)
        reports.append(report)
        if options.until_bad and report.outcome != "passed":
            break
    bad = sum(report.outcome != "passed" for report in reports)
    print(f"{len(reports) - bad} of {len(reports)} cases passed", file=sys.stderr)
    return 1 if bad or not reports else 0


_Check = Callable[[Op, Case, Launch, torch.device], CaseReport]


def _late_check(device: torch.device, seed: int, names: Iterable[str]) -> _Check | None:
    """A check with late inputs; None, with words on stderr, where it would prove nothing.

    Of each op in `names` it is said on stderr how much late inputs can show.
    """
    from k3decode.jitter import Jitter, chain_of  # noqa: PLC0415

    jitter = Jitter(device, seed)
    if (doubt := jitter.doubt()) is not None:
        print(f"{doubt}: --jitter proves nothing on this machine", file=sys.stderr)
        return None
    for name in names:
        print(chain_of(name, [op.name for op in OPS]).sentence(name), file=sys.stderr)

    def check(op: Op, case: Case, launch: Launch, device: torch.device) -> CaseReport:
        # Once in time, so that nothing is compiled while producers pause; what this raises, the
        # late launch raises again.
        with suppress(Exception):
            case.prepare(launch, device).run()
        return check_case(op, case, launch, device, late=partial(jitter.delayed, op))

    return check


def _chosen(options: argparse.Namespace) -> list[tuple[Op, Case]]:
    ops = [op_named(name) for name in options.op] or list(OPS)
    if options.replay is not None:
        replayed = replayed_cases(read_recording(options.replay))
        chosen = [(op, case) for op, case in replayed if op in ops]
        if not chosen:
            raise RecordingError(
                f"{options.replay}: expected launches of {', '.join(op.name for op in ops)}, found "
                "none"
            )
        return chosen
    groups, names = options.group or GROUPS, options.case
    chosen = [
        (op, case)
        for op in ops
        for case in op.cases
        if case.group in groups and (names is None or case.name in names)
    ]
    if missing := set(names or ()) - {case.name for _, case in chosen}:
        raise ValueError(
            f"expected names of cases of these ops and groups, found {', '.join(sorted(missing))}"
        )
    return Part.of(options.part).taken(chosen)


def _adapter(text: str) -> tuple[str, Launch]:
    name, _, target = text.partition("=")
    module, _, function = target.partition(":")
    if not (module and function):
        raise ValueError(f"expected OP=MODULE:FUNCTION, found '{text}'")
    op = op_named(name)
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"--adapter {text}: expected a function '{function}' of a module '{module}', found "
            f"none: {error}"
        ) from error
    if not callable(found):
        # A mistake on the command line, like the others here.
        raise ValueError(  # noqa: TRY004
            f"--adapter {text}: expected a function with the parameters of {op.name}'s launch, "
            f"found {type(found).__name__}"
        )
    return op.name, cast(Launch, found)


if __name__ == "__main__":
    sys.exit(main())
