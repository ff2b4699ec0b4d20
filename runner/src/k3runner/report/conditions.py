"""Under which conditions a path applies: what was declared, and what of it was measured. Pure.

The declared part comes from the plan, which was fixed before the first boot; the measured part is
the verdict's. What is neither measured nor excused stands there as not measured.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from k3bundle.bundle import RunRecords
from k3bundle.plan import CellPlan, Plan, ServingCell, SkippedCell
from k3bundle.scope_record import DeclaredDeployment
from k3bundle.verdict import CellInvalid, CellResult, Verdict
from k3runner.report.build import trust_of
from k3runner.report.condition_state import STATES, Condition, State, condition_of
from k3runner.report.view import SealView
from k3runner.status_mark import Status
from k3runner.wording import count_text, plural

__all__ = ["ConditionLine", "ConditionsView", "LoadRow", "conditions_view"]

_LOAD: Final = re.compile(r"isl(\d+)-osl(\d+)-c(\d+)$")
"""How a tier names a cell of a sweep; a skipped cell is known by its name alone."""
_NOT_MEASURED: Final[State] = "not_measured"
_BAD: Final[frozenset[State]] = frozenset(
    {"fell_short", "measures_stock", "not_judged", "undecided"}
)


@dataclass(frozen=True)
class ConditionLine:
    """One declared condition, and what became of it."""

    dimension: str
    declared: str
    state: State
    found: str


@dataclass(frozen=True)
class LoadRow:
    """Cells of one deployment with equal prompts and answers, by requests in flight."""

    deployment: str
    load: str
    cells: tuple[tuple[str, Condition], ...]
    """Requests in flight, or the name of the cell, and what became of it."""


@dataclass(frozen=True)
class ConditionsView:
    """Everything that the page of conditions shows."""

    repository: str
    pull_request: int
    commit_sha: str
    tier: str
    subject: str
    status: Status
    claims: tuple[tuple[str, Status], ...]
    only: tuple[str, ...]
    trust: str
    lines: tuple[ConditionLine, ...]
    loads: tuple[LoadRow, ...]
    limits: tuple[str, ...]
    bundle_sha256: str | None
    plan_sha256: str


@dataclass(frozen=True)
class _Judged:
    """A planned cell with its result."""

    planned: CellPlan
    result: CellResult
    condition: Condition


def conditions_view(records: RunRecords, verdict: Verdict, seal: SealView | None) -> ConditionsView:
    """Return the conditions of a run.

    Args:
        records: What the run recorded.
        verdict: Derived from these records.
        seal: What is known about the sealed bundle; None for an unsealed run folder.
    """
    plan, change = records.plan, records.subject.change
    judged = [
        _Judged(planned, result, condition_of(planned, result, plan))
        for planned, result in zip(plan.cells, verdict.cells, strict=True)
    ]
    return ConditionsView(
        repository=change.repository,
        pull_request=change.pull_request,
        commit_sha=change.commit_sha,
        tier=plan.tier,
        subject=plan.subject,
        status=verdict.status,
        claims=tuple((claim.name, claim.status) for claim in verdict.claims),
        only=plan.only_deployments,
        trust=trust_of(seal)[0],
        lines=(
            *_accelerators(records, judged),
            *(() if plan.pairing == "package" else _serving(plan, judged)),
            *_features(judged),
        ),
        loads=_loads(judged),
        limits=verdict.limits,
        bundle_sha256=seal.bundle_sha256 if seal else None,
        plan_sha256=records.run.plan_sha256,
    )


def _accelerators(records: RunRecords, judged: Sequence[_Judged]) -> Iterable[ConditionLine]:
    gpus = records.environment.gpus
    shown: State = "measured" if any(map(_is_believed, judged)) else _NOT_MEASURED
    declared = records.plan.scope.compute_capabilities
    here = {gpu.compute_capability: gpu.name for gpu in gpus}
    for capability in declared or sorted(here):
        name = here.get(capability)
        found = f"{sum(g.compute_capability == capability for g in gpus)} x {name}" if name else ""
        yield ConditionLine(
            "GPU",
            f"compute capability {capability}",
            shown if name else _NOT_MEASURED,
            found or "not in this machine",
        )
    if not gpus and not declared:
        yield ConditionLine("GPU", "none needed", shown, records.environment.cpu_model)


def _is_believed(one: _Judged) -> bool:
    """Whether a cell ran, and its numbers are of what was to be measured."""
    return one.condition.state not in {
        "measures_stock",
        "not_judged",
        "not_measured",
        "not_claimed",
    }


def _serving(plan: Plan, judged: Sequence[_Judged]) -> Iterable[ConditionLine]:
    yield from _parallelism(plan, judged)
    yield from _bounds(plan, judged)


def _parallelism(plan: Plan, judged: Sequence[_Judged]) -> Iterable[ConditionLine]:
    """TP, DCP and draft lengths, each value with the cells of the deployments that have it."""
    facts: tuple[tuple[str, str], ...] = (
        ("tensor_parallel", "Ranks that share a layer (TP)"),
        ("context_parallel", "Ranks that share the context (DCP)"),
        ("draft_tokens", "Draft tokens"),
    )
    for field, dimension in facts:
        values = sorted({getattr(one, field) for one in plan.scope.deployments})
        for value in values:
            names = [one.name for one in plan.scope.deployments if getattr(one, field) == value]
            cells = [one for one in judged if _is_timed(one) and one.planned.deployment in names]
            yield _summed(dimension, str(value), cells, names)
    for deployment in plan.scope.deployments:
        cells = [
            one for one in judged if _is_timed(one) and one.planned.deployment == deployment.name
        ]
        yield _summed("Deployment", _words(deployment), cells, [deployment.name])


def _words(deployment: DeclaredDeployment) -> str:
    drafts = f"{deployment.draft_tokens} drafts" if deployment.draft_tokens else "no drafts"
    return (
        f"{deployment.name}: {plural(deployment.gpu_count, 'GPU')}, TP "
        f"{deployment.tensor_parallel}, DCP {deployment.context_parallel}, {drafts}"
    )


def _summed(
    dimension: str, declared: str, cells: Sequence[_Judged], names: Sequence[str]
) -> ConditionLine:
    """One line over several cells: the state that a reader must not miss, and all the counts."""
    if not cells:
        return ConditionLine(
            dimension, declared, _NOT_MEASURED, f"left out of the plan: {', '.join(names)}"
        )
    states = [one.condition.state for one in cells]
    counts = [f"{states.count(state)} {STATES[state].words}" for state in STATES if state in states]
    return ConditionLine(dimension, declared, _together(states), ", ".join(counts))


def _together(states: Sequence[State]) -> State:
    """What fell short or cannot be believed counts first; then what was measured; then the rest."""
    worst = min(states, key=list(STATES).index)
    if worst in _BAD:
        return worst
    good = [state for state in states if STATES[state].tone == "good"]
    if not good:
        return worst
    return good[0] if len(set(states)) == 1 else "measured"


def _is_timed(one: _Judged) -> bool:
    planned = one.planned
    if isinstance(planned, SkippedCell):
        return planned.of_kind == "serving"
    return isinstance(planned, ServingCell)


def _bounds(plan: Plan, judged: Sequence[_Judged]) -> Iterable[ConditionLine]:
    """The largest load that is claimed, beside the largest that was measured."""
    ran = [
        one.planned for one in judged if isinstance(one.planned, ServingCell) and _is_believed(one)
    ]
    scope = plan.scope
    for dimension, claimed, found in (
        ("Requests in flight", scope.maximum_concurrency, [one.concurrency for one in ran]),
        ("Prompt tokens", scope.maximum_prompt_tokens, [one.prompt_tokens for one in ran]),
    ):
        largest = max(found, default=0)
        values = ", ".join(count_text(value) for value in sorted(set(found)))
        declared = "no limit declared" if claimed is None else f"up to {count_text(claimed)}"
        reached = claimed is not None and largest >= claimed
        beyond = "" if reached or not largest else f"; beyond {count_text(largest)} not measured"
        yield ConditionLine(
            dimension,
            declared,
            "measured" if largest else _NOT_MEASURED,
            f"measured at {values}{beyond}" if largest else "no timed cell counts",
        )
    if scope.prepared_limit is not None:
        aside = sum(one.condition.state == "left_to_stock" for one in judged)
        yield ConditionLine(
            "Tokens of a step",
            f"prepared up to {count_text(scope.prepared_limit)}, larger ones are stock's",
            "left_to_stock" if aside else _NOT_MEASURED,
            f"{plural(aside, 'cell')} beyond it" if aside else "no cell beyond it was measured",
        )


def _features(judged: Sequence[_Judged]) -> Iterable[ConditionLine]:
    for one in judged:
        planned = one.planned
        if isinstance(planned, SkippedCell) and planned.of_kind != "serving":
            yield ConditionLine(
                planned.of_kind.capitalize(), planned.cell_id, one.condition.state, planned.reason
            )
        elif planned.kind == "kernel":
            words = f"{planned.task} of {plural(len(planned.ops), 'op')}"
            yield ConditionLine("Kernels", words, one.condition.state, _found(one))
        elif planned.kind == "feature":
            name = planned.feature.replace("_", " ")
            yield ConditionLine("Feature", name, one.condition.state, _found(one))
        elif planned.kind == "greedy":
            where = "" if planned.deployment == "default" else f" in {planned.deployment}"
            yield ConditionLine(
                "Equal answers",
                f"{planned.concurrency} in flight{where}",
                one.condition.state,
                _found(one),
            )


def _found(one: _Judged) -> str:
    if isinstance(one.result, CellInvalid):
        return one.result.cause.replace("_", " ")
    return one.result.reason


def _loads(judged: Sequence[_Judged]) -> tuple[LoadRow, ...]:
    groups: dict[tuple[str, str], list[tuple[str, Condition]]] = {}
    for one in judged:
        if not _is_timed(one):
            continue
        load, label = _load_of(one.planned)
        groups.setdefault((one.planned.deployment, load), []).append((label, one.condition))
    return tuple(LoadRow(*key, tuple(cells)) for key, cells in groups.items())


def _load_of(cell: CellPlan) -> tuple[str, str]:
    """Prompt and answer in words, and what tells the cell from others of that load."""
    if isinstance(cell, ServingCell) and cell.traffic.kind != "trace":
        load = f"{cell.prompt_tokens} tokens in, {cell.output_tokens} out"
        return load, str(cell.concurrency)
    named = _LOAD.search(cell.cell_id)
    if named is None:
        return "other loads", cell.cell_id
    return f"{named[1]} tokens in, {named[2]} out", named[3]
