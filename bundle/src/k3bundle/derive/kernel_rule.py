"""The rule of a kernel cell: are a package's kernels right, free of races, and timed believably?

Right comes first: an op with a case that is wrong, or that raises, fails the check, and its times
count for nothing. A time below what moving the bytes takes is not a fast kernel but no time. What
could not be read could be a case that failed, so nothing passes beside it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from k3bundle.derive.cell_context import CellContext
from k3bundle.derive.problem import Problem
from k3bundle.derive.selection import CellBoot, Selection
from k3bundle.derive.sentences import counted, listed, percent, plain, quote
from k3bundle.derive.telemetry_gate import read_window, telemetry_problem
from k3bundle.environment import NodeFacts
from k3bundle.kernel_evidence import (
    KernelAuditEvidence,
    KernelCheckEvidence,
    KernelTiming,
    KernelTimingEvidence,
    OpCheck,
)
from k3bundle.kernel_record import AuditedKernel, CheckedCase, KernelCommand, TimedCase
from k3bundle.plan import KernelCell, Plan
from k3bundle.verdict import CellFail, CellInconclusive, CellInvalid, CellPass

__all__ = ["judge_kernel", "wrong_ops"]

_FASTEST: Final = 1.02
"""Share of the speed of light above which a cold time cannot be one: peaks are rounded numbers."""
_FASTEST_CACHED: Final = 8.0
"""The same for a time whose bytes may come from a cache: none is so much faster than its memory."""
_LARGEST_CACHE_BYTES: Final = 512 * 1024 * 1024
"""No cache holds more, so a case that moves more reads memory, whatever its line says."""
_FASTEST_MEMORY_BYTES_PER_US: Final = 32e6
"""No accelerator moves more: 32 TB/s. A package that assumes more would call every time slow."""
_Result = CellPass | CellFail | CellInconclusive | CellInvalid


def wrong_ops(plan: Plan, selection: Selection) -> frozenset[str]:
    """Ops with a case that did not pass, in any check of the run."""
    checks = [c for c in plan.cells if isinstance(c, KernelCell) and c.task == "check"]
    return frozenset(
        line.op
        for cell in checks
        for boot in selection.boots(cell.cell_id)
        for line in boot.kernels
        if line.kind == "case" and line.outcome != "passed"
    )


def judge_kernel(
    context: CellContext,
    cell: KernelCell,
    wrong: frozenset[str],
    node: NodeFacts,
    commit_sha: str,
) -> _Result:
    """Judge one task of a package.

    Args:
        context: The records that count.
        cell: The planned cell.
        wrong: Ops with a case that did not pass.
        node: The machine, whose accelerators the package must have used.
        commit_sha: Commit under evaluation, which the package must not contradict.
    """
    missing = context.missing_boots()
    if missing is not None:
        return context.invalid(missing, None)
    boot = context.boots[0]
    command = next((line for line in boot.kernels if isinstance(line, KernelCommand)), None)
    if command is None:
        return context.invalid(
            Problem("missing_cases", "How the package's command ended is not recorded."), None
        )
    elsewhere = _elsewhere(command, node) or _other_commit(command, commit_sha)
    if elsewhere is not None:
        return context.invalid(elsewhere, None)
    if cell.task == "check":
        return _judge_check(context, cell, boot, command)
    if cell.task == "audit":
        return _judge_audit(context, boot, command)
    return _judge_bench(context, cell, boot, command, wrong)


def _elsewhere(command: KernelCommand, node: NodeFacts) -> Problem | None:
    """The package names an accelerator that this machine does not have."""
    said, names = command.facts.get("gpu"), {gpu.name for gpu in node.gpus}
    if said is None or not names or said in names:
        return None
    return Problem(
        "other_accelerator",
        f"The package says that it ran on {quote(said)}; this machine has {listed(sorted(names))}.",
    )


def _other_commit(command: KernelCommand, commit_sha: str) -> Problem | None:
    """The package says that it is of another commit than the one under evaluation."""
    said = command.facts.get("commit")
    if said in {None, commit_sha}:
        return None
    return Problem(
        "other_commit",
        f"The package says that it is of commit {quote(said)[:60]}; {commit_sha} is evaluated.",
    )


def _unread(command: KernelCommand) -> Problem | None:
    """Lines of the form of an answer that hold none."""
    if not command.unread_lines:
        return None
    first = quote(command.unread[0]) if command.unread else "none is recorded"
    count = counted(command.unread_lines, "answer")
    return Problem("unreadable_answer", f"{count} could not be read, for example: {first}")


def _judge_check(
    context: CellContext, cell: KernelCell, boot: CellBoot, command: KernelCommand
) -> _Result:
    cases = [line for line in boot.kernels if isinstance(line, CheckedCase)]
    evidence = KernelCheckEvidence(ops=_by_op(cases))
    bad = [case for case in cases if case.outcome != "passed"]
    if bad:
        first = bad[0]
        said = first.sentences[0] if first.sentences else f"it {first.outcome}"
        reason = (
            f"{len(bad)} of {counted(len(cases), 'case')} do not pass, for example {first.op} "
            f"{quote(first.case)}: {quote(said)}."
        )
        return context.failed(reason, evidence)
    problem = (
        _unread(command)
        or _missing_ops(cell, {case.op for case in cases})
        or _missing_groups(cell, cases)
        or _contradiction(command, anything_bad=False)
        or _contradicting_error(cases)
    )
    if problem is not None:
        return context.invalid(problem, evidence)
    worst = max((case.worst for case in cases if case.worst is not None), default=0.0)
    return context.passed(
        f"{counted(len(cases), 'case')} of {counted(len(evidence.ops), 'op')} pass against their "
        f"references; the largest error is {worst:.2f} of what is allowed.",
        evidence,
    )


def _by_op(cases: Sequence[CheckedCase]) -> tuple[OpCheck, ...]:
    found: dict[str, list[CheckedCase]] = {}
    for case in cases:
        found.setdefault(case.op, []).append(case)
    return tuple(_op_check(op, of) for op, of in sorted(found.items()))


def _op_check(op: str, cases: Sequence[CheckedCase]) -> OpCheck:
    outcomes = [case.outcome for case in cases]
    numbers = [case.worst for case in cases]
    known = [number for number in numbers if number is not None]
    bad = next((case for case in cases if case.outcome != "passed"), None)
    words = None
    if bad is not None:
        words = f"{quote(bad.case)}: {quote(bad.sentences[0] if bad.sentences else bad.outcome)}"
    return OpCheck(
        op=op,
        passed=outcomes.count("passed"),
        failed=outcomes.count("failed"),
        errored=outcomes.count("errored"),
        worst=max(known) if known and len(known) == len(numbers) else None,
        first_problem=words,
    )


def _missing_ops(cell: KernelCell, found: Iterable[str]) -> Problem | None:
    missing = sorted(set(cell.ops) - set(found))
    if not missing:
        return None
    return Problem(
        "missing_cases",
        f"{len(missing)} of {len(cell.ops)} declared ops have no answer: {listed(missing)}.",
    )


def _missing_groups(cell: KernelCell, cases: Sequence[CheckedCase]) -> Problem | None:
    found = {(case.op, case.group) for case in cases}
    missing = [
        f"{op} {group}" for op in cell.ops for group in cell.groups if (op, group) not in found
    ]
    if not missing:
        return None
    return Problem("missing_cases", f"No case of {listed(missing)} was run.")


def _contradiction(command: KernelCommand, *, anything_bad: bool) -> Problem | None:
    """The command ended otherwise than its lines say."""
    expected = 1 if anything_bad else 0
    if command.exit_code == expected:
        return None
    return Problem(
        "contradicts_itself",
        f"The command ended with status {command.exit_code} where its lines give {expected}.",
    )


def _contradicting_error(cases: Sequence[CheckedCase]) -> Problem | None:
    """A case that passed with an error that is larger than what is allowed, or that is none."""
    for case in cases:
        if case.outcome == "passed" and case.worst is not None and not 0 <= case.worst <= 1:
            return Problem(
                "contradicts_itself",
                f"{case.op} {quote(case.case)} is said to pass with an error of {case.worst:.3g} "
                "times what is allowed.",
            )
    return None


def _judge_audit(context: CellContext, boot: CellBoot, command: KernelCommand) -> _Result:
    audits = [line for line in boot.kernels if isinstance(line, AuditedKernel)]
    found = [(audit, finding) for audit in audits for finding in audit.findings]
    first = f"{quote(found[0][0].kernel)}: {quote(found[0][1].why)}" if found else None
    evidence = KernelAuditEvidence(
        kernels=len(audits),
        dependents=sum(audit.dependent_launch for audit in audits),
        undeclared=sum(not audit.declared for audit in audits),
        on_ptx=sum(audit.decided_on == "PTX" for audit in audits),
        findings=len(found),
        first_finding=first,
    )
    if found:
        reason = (
            f"{counted(len(found), 'read may come', 'reads may come')} too early in "
            f"{counted(len(audits), 'kernel')}, for example in {first}."
        )
        return context.failed(reason, evidence)
    problem = _unread(command)
    if problem is None and not audits:
        problem = Problem("missing_cases", "No kernel was audited.")
    problem = problem or _contradiction(command, anything_bad=False)
    if problem is not None:
        return context.invalid(problem, evidence)
    ptx = f"; of {evidence.on_ptx} only PTX was read" if evidence.on_ptx else ""
    return context.passed(
        f"No read comes too early in {counted(len(audits), 'kernel')}, of which "
        f"{evidence.dependents} start while the ones before may still write{ptx}.",
        evidence,
    )


def _judge_bench(
    context: CellContext,
    cell: KernelCell,
    boot: CellBoot,
    command: KernelCommand,
    wrong: frozenset[str],
) -> _Result:
    timed = [line for line in boot.kernels if isinstance(line, TimedCase)]
    reading = read_window(boot, 0, boot.finished.wall_ns)
    timings = tuple(sorted((_timing(one) for one in timed), key=lambda one: (one.op, one.case)))
    evidence = KernelTimingEvidence(timings=timings, throttled_share=reading.throttled_share)
    unfit = sorted(wrong.intersection(cell.ops))
    problem = (
        Problem("wrong_answers", f"Times count only for right results, and {listed(unfit)} is not.")
        if unfit
        else _unread(command)
        or _missing_ops(cell, {one.op for one in timed})
        or _contradiction(command, anything_bad=False)
        or _without_a_floor(timed)
        or _implausible(timings)
        or telemetry_problem((boot,), (reading,), context.plan.gates)
    )
    if problem is not None:
        return context.invalid(problem, evidence)
    cold = [one for one in timings if one.cold]
    least = min(cold, key=lambda one: one.sol_fraction, default=None)
    words = f"{counted(len(timings), 'case')} of {counted(len(cell.ops), 'op')} timed"
    if len(cold) < len(timings):
        words += f", {len(timings) - len(cold)} of them out of a cache"
    if least is not None:
        words += (
            f"; the slowest beside its bytes is {least.op} {quote(least.case)} at "
            f"{percent(least.sol_fraction)} of the speed of light"
        )
    return context.passed(f"{words}; reported, not judged by {context.plan.tier}.", evidence)


def _timing(line: TimedCase) -> KernelTiming:
    moved = line.read_bytes + line.write_bytes
    return KernelTiming(
        op=line.op,
        case=line.case,
        latency_us=line.latency_us,
        spread_share=line.spread_us / line.latency_us,
        # Bytes per microsecond are megabytes per second.
        bandwidth_gb_per_s=moved / line.latency_us / 1e3,
        sol_fraction=line.roofline_us / line.latency_us,
        read_ratio=line.latency_us / line.read_us if line.read_us else None,
        cold=line.cold,
    )


def _without_a_floor(timed: Sequence[TimedCase]) -> Problem | None:
    """A case whose time could not be told from one that is too short to be true."""
    for one in timed:
        moved = one.read_bytes + one.write_bytes
        if not one.cold and moved > _LARGEST_CACHE_BYTES:
            return Problem(
                "contradicts_itself",
                f"{one.op} {quote(one.case)} moves {moved} bytes and is said to find them in a "
                "cache; no cache holds them.",
            )
        if moved > one.roofline_us * _FASTEST_MEMORY_BYTES_PER_US:
            return Problem(
                "contradicts_itself",
                f"{one.op} {quote(one.case)} moves {moved} bytes, for which "
                f"{plain(one.roofline_us)} us are no floor: no accelerator has a memory so fast.",
            )
    return None


def _implausible(timings: Sequence[KernelTiming]) -> Problem | None:
    for one in timings:
        if one.sol_fraction > (_FASTEST if one.cold else _FASTEST_CACHED):
            return Problem(
                "implausible_time",
                f"{one.op} {quote(one.case)} took {plain(one.latency_us)} us, which is "
                f"{one.sol_fraction:.2f} times the speed of light: no such time can be.",
            )
    return None
