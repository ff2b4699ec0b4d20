"""Decides everything before the first boot. Pure: tier, subject and node in, plan out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import ValidationError

from k3bundle.environment import NodeFacts
from k3bundle.gates import Gates
from k3bundle.plan import (
    DEFAULT_DEPLOYMENT,
    CellPlan,
    Deployment,
    GreedyCell,
    Plan,
    SkippedCell,
)
from k3bundle.schedule import RunnableCell
from k3bundle.scope_record import DeclaredDeployment, DeclaredScope
from k3bundle.subject import ArmSpec
from k3runner.boot_order import boot_slots
from k3runner.cell_fit import fit_cell
from k3runner.errors import MachineError, UsageError
from k3runner.greedy_scope import left_out_prompts
from k3runner.package_plan import package_plan
from k3runner.subjects.definition import Subject
from k3runner.subjects.scope import Scope, SubjectDeployment, machine_problem
from k3runner.tiers.loading import Tier

__all__ = ["EXTERNAL_SUBJECT", "Pairing", "build_plan"]

Pairing = Literal["paired", "single", "package"]

EXTERNAL_SUBJECT = "existing server"
"""Name of the subject where a server is evaluated that the runner did not start."""
_SINGLE_LIMIT = (
    "One existing server was measured: there is no second arm, so nothing is compared and no "
    "claim is made."
)
_EXTERNAL_ARM = ArmSpec(
    name="candidate",
    decode_backend="as started by its owner",
    expected_path="unknown",
    engine_arguments=(),
    environment={},
    overlay_sha256=None,
)


def build_plan(
    tier: Tier,
    subject: Subject,
    node: NodeFacts,
    pairing: Pairing,
    only: Sequence[str] = (),
) -> Plan:
    """Builds the plan of a run.

    Args:
        tier: Cells, boot order and gates.
        subject: The engine, its arms and deployments, and what it claims to serve.
        node: The machine; a cell that it cannot run becomes a skipped cell with the reason.
        pairing: `paired` boots both arms; `single` uses one server that already runs; `package`
            asks a kernel package. A tier of kernel tasks knows no other.
        only: Deployments that the plan is restricted to; none: all of the subject.

    Returns:
        The plan. Equal arguments give equal plans, byte for byte.

    Raises:
        UsageError: The subject sets a gate that there is not, or to a value that it cannot have,
            or has no such deployment.
        MachineError: The machine can run no cell at all.
    """
    if tier.kernels:
        _refuse_engine_flags(tier, pairing, only)
        return package_plan(tier, subject, node, _gates(tier.gates, subject))
    if pairing == "single":
        return _single_plan(tier, node, only)
    if not subject.arms:
        raise UsageError(
            f"Subject {subject.name} is a kernel package without an engine, and tier {tier.name} "
            "boots engines.",
            "Use --tier kernels.",
        )
    chosen = _restricted(subject, only)
    cells = tuple(_cells(tier, chosen, node))
    booted = {cell.deployment for cell in cells if not isinstance(cell, SkippedCell)}
    if not booted:
        raise MachineError(
            f"None of the {len(cells)} cells of tier {tier.name} for {subject.name} can run here. "
            f"{cells[0].reason if isinstance(cells[0], SkippedCell) else ''}".rstrip(),
            "Use a machine that has it; `k3-eval plan --node FILE` plans for another one.",
        )
    deployments = tuple(one.spec for one in subject.deployments if one.spec.name in booted)
    names = [one.name for one in deployments]
    return Plan(
        tier=tier.name,
        subject=subject.name,
        pairing=pairing,
        arms=tuple(arm.spec for arm in subject.arms),
        allowed_config_differences=subject.allowed_config_differences,
        deployments=deployments,
        only_deployments=tuple(one.spec.name for one in chosen.deployments) if only else (),
        scope=_declared(subject),
        cells=cells,
        boots=boot_slots(names, tier.boot_order, tier.null_pairs),
        gates=_gates(tier.gates, subject),
        limits=(*tier.limits, *subject.limits, *left_out_prompts(tier.cells, subject.scope)),
    )


def _refuse_engine_flags(tier: Tier, pairing: Pairing, only: Sequence[str]) -> None:
    if pairing == "single":
        raise UsageError(
            f"The tier {tier.name} asks a package and no server.", "Leave out --engine-url."
        )
    if tier.cells or tier.sweeps:
        raise UsageError(
            f"The tier {tier.name} sends no requests.", "Leave out --prompts and --trace."
        )
    if only:
        raise UsageError(
            f"The tier {tier.name} runs on one GPU, so there is no deployment to choose.",
            "Leave out --deployment.",
        )


def _restricted(subject: Subject, only: Sequence[str]) -> Subject:
    """The subject with the deployments that were asked for, in its own order."""
    names = [one.spec.name for one in subject.deployments]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise UsageError(
            f"Subject {subject.name} has no deployment `{unknown[0]}`; it has {', '.join(names)}.",
            "Give one of these with --deployment, or leave it out for all.",
        )
    if not only:
        return subject
    return replace(
        subject, deployments=tuple(one for one in subject.deployments if one.spec.name in only)
    )


def _declared(subject: Subject) -> DeclaredScope:
    """The subject's scope as the plan records it, with every deployment."""
    scope, rule = subject.scope, subject.scope.preparation
    return DeclaredScope(
        compute_capabilities=scope.compute_capabilities,
        maximum_concurrency=scope.maximum_concurrency,
        maximum_prompt_tokens=scope.maximum_prompt_tokens,
        prepared_always=rule.always if rule else (),
        prepared_limit=rule.limit if rule else None,
        deployments=tuple(
            DeclaredDeployment(
                name=one.spec.name,
                gpu_count=one.spec.gpu_count,
                tensor_parallel=one.tensor_parallel,
                context_parallel=one.context_parallel,
                draft_tokens=one.spec.draft_tokens,
            )
            for one in subject.deployments
        ),
    )


def _single_plan(tier: Tier, node: NodeFacts, only: Sequence[str]) -> Plan:
    if only:
        raise UsageError(
            "A server that already runs has the deployment that its owner started, and no other.",
            "Leave out --deployment, or --engine-url.",
        )
    deployment = SubjectDeployment(spec=Deployment(name=DEFAULT_DEPLOYMENT))
    sweeps = (cell for sweep in tier.sweeps for cell in sweep.cells(deployment.spec, None))
    return Plan(
        tier=tier.name,
        subject=EXTERNAL_SUBJECT,
        pairing="single",
        arms=(_EXTERNAL_ARM,),
        allowed_config_differences=(),
        cells=tuple(fit_cell(cell, deployment, Scope(), node) for cell in (*tier.cells, *sweeps)),
        boots=boot_slots([DEFAULT_DEPLOYMENT], ("candidate",), 0),
        gates=tier.gates,
        limits=(*tier.limits, _SINGLE_LIMIT),
    )


def _cells(tier: Tier, subject: Subject, node: NodeFacts) -> Iterator[CellPlan]:
    """The tier's cells where they run, then what each deployment runs of its own.

    Speed counts only for correct answers of the same deployment, so each one that is timed runs the
    greedy cells too; its boots are there anyway.
    """
    home = _home(tier, subject, node)
    for cell in tier.cells:
        placed = cell.model_copy(update={"deployment": home.spec.name})
        yield fit_cell(placed, home, subject.scope, node)
    for deployment in subject.deployments:
        prepared = subject.scope.prepared(deployment)
        timed = [
            cell
            for sweep in tier.sweeps
            if sweep.applies_to(deployment.spec)
            and (not sweep.one_deployment or deployment is home)
            for cell in sweep.cells(deployment.spec, prepared)
        ]
        answers = _greedy_of(tier, deployment.spec) if timed and deployment is not home else ()
        for own in (*answers, *timed):
            yield fit_cell(own, deployment, subject.scope, node)


def _greedy_of(tier: Tier, deployment: Deployment) -> tuple[RunnableCell, ...]:
    """The tier's greedy cells for a deployment that is not the one of its other cells."""
    return tuple(
        cell.model_copy(
            update={"cell_id": f"{deployment.name}-{cell.cell_id}", "deployment": deployment.name}
        )
        for cell in tier.cells
        if isinstance(cell, GreedyCell)
    )


def _home(tier: Tier, subject: Subject, node: NodeFacts) -> SubjectDeployment:
    """Where the cells run that any deployment can run: one that is booted anyway."""
    able = [
        one for one in subject.deployments if machine_problem(subject.scope, one, node) is None
    ] or list(subject.deployments)
    swept = [
        one
        for one in able
        if any(sweep.applies_to(one.spec) and not sweep.one_deployment for sweep in tier.sweeps)
    ]
    # Every swept deployment is booted whatever the others do, so one of them costs no boot more.
    return (swept or able)[0]


def _gates(gates: Gates, subject: Subject) -> Gates:
    try:
        return Gates.model_validate({**gates.model_dump(), **subject.gates})
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"Subject {subject.name} sets the gate `{'.'.join(map(str, first['loc']))}`: "
            f"{first['msg']}.",
            "Correct its [gates] table.",
        ) from error
