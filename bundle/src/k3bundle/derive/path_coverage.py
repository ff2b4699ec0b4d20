"""Which path served the decode steps of a cell.

    share = decode and verify steps that the arm's expected path served / all of them

Both counts are the difference of the snapshots after and before the cell; where the engine counts
no steps itself they follow from its table of replayed graphs (`graph_steps.py`). An arm counts as
itself only when its share reaches the plan's minimum; the engine's arguments prove nothing.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from k3bundle.coverage import StepCount
from k3bundle.derive.graph_steps import graph_steps
from k3bundle.derive.plan_shape import arm
from k3bundle.derive.problem import Problem
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import percent, quote
from k3bundle.plan import BootSlot, FeatureCell, Plan, ServingCell
from k3bundle.record import MAX_SAFE_INTEGER
from k3bundle.schedule import RunnableCell
from k3bundle.subject import ArmSpec
from k3bundle.verdict import CellCoverage

__all__ = ["CoverageReading", "coverage_problem", "expected_spec", "read_coverage"]

_DECODE_KINDS: Final = frozenset({"decode", "verify"})

_Steps = Counter[tuple[str, str, str | None]]
"""Kind, path and reason -> steps."""


@dataclass(frozen=True)
class CoverageReading:
    """The coverage of one cell in one boot, and what the engine says about itself."""

    record: CellCoverage
    configured_backend: str | None
    contradiction: str | None
    """Why the counts cannot be right; None when they can."""
    steps_aside: bool = False
    """Whether the plan says that the candidate's path leaves this cell to the baseline's."""


def expected_spec(slot: BootSlot, plan: Plan, *, steps_aside: bool) -> ArmSpec | None:
    """The arm whose path must serve a cell in a boot.

    It is the arm of the boot, but for a candidate whose path steps aside by plan: the baseline's.
    """
    return arm(plan, "baseline" if steps_aside else slot.arm)


def read_coverage(boot: CellBoot, plan: Plan, cell: RunnableCell) -> CoverageReading:
    """Read the coverage of one cell in one boot; never raises, whatever the counts."""
    planned = isinstance(cell, ServingCell) and cell.expects_fallback
    steps_aside = planned and boot.slot.arm == "candidate"
    before, after = boot.coverage.before, boot.coverage.after
    nothing = CoverageReading(
        record=CellCoverage(
            slot=boot.slot.slot,
            arm=boot.slot.arm,
            source="unavailable",
            decode_steps=0,
            expected_path_steps=0,
            share=None,
            fallback_reasons={},
        ),
        configured_backend=after.configured_backend if after else None,
        contradiction=None,
        steps_aside=steps_aside,
    )
    spec = expected_spec(boot.slot, plan, steps_aside=steps_aside)
    if before is None or after is None or "unavailable" in (before.source, after.source):
        return _read_graphs(boot, plan, cell, spec, nothing)
    if before.source != after.source:
        return replace(nothing, contradiction="the counts before and after have other sources")
    steps = _steps(after.counts)
    steps.subtract(_steps(before.counts))
    if any(count < 0 for count in steps.values()):
        return replace(nothing, contradiction="a step counter went backwards during the cell")
    if sum(steps.values()) > MAX_SAFE_INTEGER:
        return replace(nothing, contradiction="the step counts are beyond 2^53")
    return replace(nothing, record=_counted(nothing.record, after.source, steps, spec))


def _read_graphs(
    boot: CellBoot,
    plan: Plan,
    cell: RunnableCell,
    spec: ArmSpec | None,
    nothing: CoverageReading,
) -> CoverageReading:
    """Read the tables of replayed graphs of an engine that counts no steps itself.

    Both arms are looked at for the candidate's kernels: the baseline's steps are stock's unless
    these kernels are found in them.
    """
    before, after, candidate = boot.graphs.before, boot.graphs.after, arm(plan, "candidate")
    if before is None or after is None or candidate is None:
        return nothing
    deployment = next((one for one in plan.deployments if one.name == cell.deployment), None)
    reading = graph_steps(
        before,
        after,
        boot.profiles,
        expected_path=candidate.expected_path,
        kernel_patterns=candidate.kernel_patterns,
        # Feature cells send one request at a time.
        requests=1 if isinstance(cell, FeatureCell) else cell.concurrency,
        draft_tokens=deployment.draft_tokens if deployment else 0,
    )
    if reading.problem is not None:
        return replace(nothing, contradiction=reading.problem)
    record = _counted(nothing.record, "graphs", _steps(reading.steps), spec)
    return replace(nothing, record=record)


def _counted(empty: CellCoverage, source: str, steps: _Steps, spec: ArmSpec | None) -> CellCoverage:
    expected_path = spec.expected_path if spec else None
    decode = {key: n for key, n in steps.items() if key[0] in _DECODE_KINDS}
    total = sum(decode.values())
    expected = sum(n for (_, path, _), n in decode.items() if path == expected_path)
    reasons: Counter[str] = Counter()
    for (_, _, reason), n in steps.items():
        if reason is not None and n > 0:
            reasons[reason] += n
    return empty.model_copy(
        update={
            "source": source,
            "decode_steps": total,
            "expected_path_steps": expected,
            "share": expected / total if total else None,
            "fallback_reasons": dict(sorted(reasons.items())),
        }
    )


def _steps(counts: Iterable[StepCount]) -> _Steps:
    steps: _Steps = Counter()
    for entry in counts:
        steps[entry.kind, entry.path, entry.reason] += entry.count
    return steps


def coverage_problem(readings: tuple[CoverageReading, ...], plan: Plan) -> Problem | None:
    """Say why the arms of a cell do not count as themselves.

    Args:
        readings: One reading per boot that finished the cell.
        plan: The plan with the arms and the minimum share.

    Returns:
        The first problem, a candidate served by another path before all others; None when every
        arm was served by its expected path.
    """
    problems = [p for p in (_problem(reading, plan) for reading in readings) if p is not None]
    problems.sort(key=lambda problem: problem.cause != "measures_stock")
    return problems[0] if problems else None


def _problem(reading: CoverageReading, plan: Plan) -> Problem | None:
    record = reading.record
    where = f"in boot {record.slot} ({record.arm})"
    if reading.contradiction is not None:
        return Problem("no_coverage", f"Coverage is unusable {where}: {reading.contradiction}.")
    if record.source == "unavailable":
        reason = f"No coverage {where}: the engine did not say which path served its decode steps."
        return Problem("no_coverage", reason) if plan.pairing == "paired" else None
    if record.share is None:
        reason = f"No coverage {where}: no decode step was counted during the cell."
        return Problem("no_coverage", reason) if plan.pairing == "paired" else None
    spec = arm(plan, record.arm)
    backend = reading.configured_backend
    other_backend = spec is not None and backend is not None and backend != spec.decode_backend
    if record.share >= plan.gates.minimum_decode_coverage and not other_backend:
        return None
    return _short_of(reading, plan)


def _short_of(reading: CoverageReading, plan: Plan) -> Problem:
    """The expected path served too few steps, or the engine was started with another one."""
    record, backend = reading.record, reading.configured_backend
    said = (
        "the engine does not say with which backend it was started"
        if backend is None
        else f"the engine says it was started with backend {quote(backend)}"
    )
    required = f"at least {percent(plan.gates.minimum_decode_coverage)} was required"
    served = f"served {record.expected_path_steps} of {record.decode_steps} decode steps"
    if reading.steps_aside:
        return Problem(
            "unexpected_path",
            "The plan leaves this cell to the baseline's path, which "
            f"{served} of the candidate in boot {record.slot}; {said}; {required}.",
        )
    found = f"the {record.arm}'s decode path {served} in boot {record.slot}; {said}"
    detail = f"{found}; {required}{_main_fallback(record)}."
    if record.arm == "candidate":
        return Problem("measures_stock", f"measures stock: {detail}")
    return Problem("no_coverage", f"The baseline was not served by its own path: {detail}")


def _main_fallback(record: CellCoverage) -> str:
    if not record.fallback_reasons:
        return ""
    reason, steps = max(record.fallback_reasons.items(), key=lambda item: (item[1], item[0]))
    return f"; the most frequent reason to step aside ({steps} steps): {quote(reason)}"
