"""What becomes of a tier's cell in a subject's scope and on a machine. Pure.

Every supported serving cell must be faster, unless the subject says beforehand why one need not.
"""

from k3bundle.environment import NodeFacts
from k3bundle.plan import CellPlan, FeatureCell, GreedyCell, ServingCell, SkippedCell
from k3bundle.schedule import RunnableCell
from k3bundle.speed_role import Excused, NonInferiority
from k3runner.greedy_scope import within_scope
from k3runner.subjects.scope import Scope, SubjectDeployment, machine_problem

__all__ = ["fit_cell", "skipped"]

_STREAMS_PER_CPU = 32


def fit_cell(
    cell: RunnableCell, deployment: SubjectDeployment, scope: Scope, node: NodeFacts
) -> CellPlan:
    """Fit one cell.

    Args:
        cell: The cell, in this deployment.
        deployment: How the engine is started.
        scope: What the subject claims to serve.
        node: The machine.

    Returns:
        The cell with the role that it has for speed, or a skipped cell with the reason.
    """
    if isinstance(cell, GreedyCell):
        cell = within_scope(cell, scope)
    reason = _unsupported(cell, scope)
    if reason is not None:
        return skipped(cell, "unsupported", reason)
    reason = machine_problem(scope, deployment, node) or _client_problem(cell, node)
    if reason is not None:
        return skipped(cell, "machine", reason)
    return _with_role(cell, deployment, scope) if isinstance(cell, ServingCell) else cell


def skipped(cell: RunnableCell, cause: str, reason: str) -> SkippedCell:
    """A cell that is not run, with the reason."""
    return SkippedCell(
        cell_id=cell.cell_id,
        deployment=cell.deployment,
        of_kind=cell.kind,
        cause="unsupported" if cause == "unsupported" else "machine",
        reason=reason,
    )


def _unsupported(cell: RunnableCell, scope: Scope) -> str | None:
    if isinstance(cell, FeatureCell):
        return None
    longest = cell.prompt_tokens if isinstance(cell, ServingCell) else max(cell.prompt_tokens)
    return scope.unsupported(cell.concurrency, longest)


def _client_problem(cell: RunnableCell, node: NodeFacts) -> str | None:
    """What would measure the load client instead of the engine."""
    if cell.kind != "serving" or node.gpus or cell.concurrency <= _STREAMS_PER_CPU * node.cpu_count:
        return None
    return (
        f"{cell.concurrency} streams on {node.cpu_count} CPUs without a GPU would measure the "
        "load client."
    )


def _with_role(cell: ServingCell, deployment: SubjectDeployment, scope: Scope) -> ServingCell:
    prepared = scope.prepared(deployment)
    if prepared is not None and prepared.why_stock(cell.concurrency) is not None:
        # The path steps aside here by its own account: nothing may get slower, nothing is claimed.
        cell = cell.model_copy(update={"expects_fallback": True, "speed": NonInferiority()})
    excuse = scope.excuse(cell.cell_id)
    return cell if excuse is None else cell.model_copy(update={"speed": Excused(reason=excuse)})
