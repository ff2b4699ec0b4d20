"""What a subject says it serves, and on which machines. Pure.

A path that claims to be faster names its limits beforehand. What lies outside them is skipped or
excused with the reason that the subject gives, never because a result was bad.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from k3bundle.environment import NodeFacts
from k3bundle.plan import Deployment
from k3bundle.step_tokens import PreparationRule, PreparedTokens, prepared_tokens

__all__ = ["Excuse", "Scope", "SubjectDeployment", "machine_problem"]


@dataclass(frozen=True)
class SubjectDeployment:
    """One way to start both arms, with the facts that tiers and scope look at."""

    spec: Deployment
    """What goes into the plan."""
    tensor_parallel: int = 1
    """Ranks that share each layer."""
    context_parallel: int = 1
    """Ranks that share the decode context (DCP)."""
    capture_sizes: tuple[int, ...] = ()
    """Token counts that the engine captures graphs for."""


@dataclass(frozen=True)
class Excuse:
    """Cells that need not be faster, and why."""

    cells: str
    """Glob over cell ids, for example `*-isl262144-*`."""
    reason: str
    """Why, in one sentence."""


@dataclass(frozen=True)
class Scope:
    """The limits that a subject declares. An empty tuple or None is no limit."""

    compute_capabilities: tuple[str, ...] = ()
    """GPUs that the candidate runs on, for example `10.3`."""
    tensor_parallel: tuple[int, ...] = ()
    """Ranks that may share each layer."""
    context_parallel: tuple[int, ...] = ()
    """Ranks that may share the decode context."""
    draft_tokens: tuple[int, ...] = ()
    """Drafts per request and step that the path serves; 0: none."""
    maximum_concurrency: int | None = None
    """Most requests in flight that the subject claims anything for."""
    maximum_prompt_tokens: int | None = None
    """Longest prompt that it claims anything for."""
    preparation: PreparationRule | None = None
    """How the path chooses the token counts of a step; larger steps are served by stock."""
    excuses: tuple[Excuse, ...] = field(default=())
    """Supported cells that need not be faster."""

    def refusal(self, deployment: SubjectDeployment) -> str | None:
        """Why the path would refuse a deployment when it starts, in a sentence; None: it would not.

        Found when the subject is read, an engine that refuses is not found out after its weights
        were loaded.
        """
        for what, value, admitted in (
            ("tensor-parallel ranks", deployment.tensor_parallel, self.tensor_parallel),
            ("context-parallel ranks", deployment.context_parallel, self.context_parallel),
            ("draft tokens", deployment.spec.draft_tokens, self.draft_tokens),
        ):
            if admitted and value not in admitted:
                return (
                    f"The deployment {deployment.spec.name} has {value} {what}; the scope admits "
                    f"{_listed(map(str, admitted))}."
                )
        return None

    def unsupported(self, concurrency: int, prompt_tokens: int) -> str | None:
        """Why the subject does not claim to serve a load, in a sentence; None when it does."""
        if self.maximum_concurrency is not None and concurrency > self.maximum_concurrency:
            return (
                f"The subject claims at most {self.maximum_concurrency} requests in flight; this "
                f"cell has {concurrency}."
            )
        if self.maximum_prompt_tokens is not None and prompt_tokens > self.maximum_prompt_tokens:
            return (
                f"The subject claims prompts of at most {self.maximum_prompt_tokens} tokens; this "
                f"cell has {prompt_tokens}."
            )
        return None

    def prepared(self, deployment: SubjectDeployment) -> PreparedTokens | None:
        """The token counts prepared in a deployment; None when every count is served."""
        if self.preparation is None:
            return None
        drafts = deployment.spec.draft_tokens
        return prepared_tokens(self.preparation, deployment.capture_sizes, drafts)

    def excuse(self, cell_id: str) -> str | None:
        """The reason of the first excuse that names a cell; None without one."""
        found = (one.reason for one in self.excuses if fnmatchcase(cell_id, one.cells))
        return next(found, None)


def machine_problem(scope: Scope, deployment: SubjectDeployment, node: NodeFacts) -> str | None:
    """Why a machine, or several, cannot run a deployment, in a sentence; None when they can.

    GPUs that the candidate does not run on are not counted: both arms must run on equal ones.
    """
    wanted = deployment.spec.gpu_count
    if wanted == 0:
        return None
    fitting = [
        gpu
        for gpu in node.gpus
        if not scope.compute_capabilities or gpu.compute_capability in scope.compute_capabilities
    ]
    if len(fitting) * node.node_count >= wanted:
        return None
    kind = _listed(scope.compute_capabilities)
    of_kind = f" of compute capability {kind}" if kind else ""
    return (
        f"Deployment {deployment.spec.name} needs {wanted} GPUs{of_kind}; {_has(node)} "
        f"{_gpus(node)}."
    )


def _has(node: NodeFacts) -> str:
    return "this machine has" if node.node_count == 1 else f"each of {node.node_count} machines has"


def _gpus(node: NodeFacts) -> str:
    if not node.gpus:
        return "none"
    kinds = sorted({(gpu.name, gpu.compute_capability) for gpu in node.gpus})
    counts = {
        kind: sum((gpu.name, gpu.compute_capability) == kind for gpu in node.gpus) for kind in kinds
    }
    return _listed(f"{counts[kind]} {kind[0]} ({kind[1]})" for kind in kinds)


def _listed(words: Iterable[str]) -> str:
    return " or ".join(words)
