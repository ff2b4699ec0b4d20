"""Reads deployments, scope and cost estimate of a subject file."""

from collections import Counter
from collections.abc import Sequence

from pydantic import ValidationError

from k3bundle.plan import DEFAULT_DEPLOYMENT, Deployment
from k3bundle.step_tokens import PreparationRule
from k3runner.errors import UsageError
from k3runner.subjects.definition import DEFAULT_GUESS, DurationGuess
from k3runner.subjects.scope import Excuse, Scope, SubjectDeployment
from k3runner.toml_table import Table

__all__ = ["read_deployments", "read_guess", "read_scope"]

_CORRECT = "Correct the file."


def read_deployments(tables: Sequence[Table]) -> tuple[SubjectDeployment, ...]:
    """The `[[deployments]]` of a subject; one without facts when there is none.

    Raises:
        UsageError: One of them is not a deployment, or a name stands twice.
    """
    if not tables:
        return (SubjectDeployment(spec=Deployment(name=DEFAULT_DEPLOYMENT)),)
    found = tuple(_deployment(table) for table in tables)
    names = Counter(one.spec.name for one in found)
    for name, count in names.items():
        if count > 1:
            raise UsageError(
                f"{tables[0].where}: the deployment `{name}` stands {count} times.", _CORRECT
            )
    return found


def _deployment(table: Table) -> SubjectDeployment:
    try:
        spec = Deployment(
            name=table.take("name", str),
            engine_arguments=table.strings("engine_arguments", ()),
            environment=table.string_map("environment"),
            gpu_count=table.take("gpu_count", int),
            draft_tokens=table.take("draft_tokens", int, 0),
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"{table.where}: `{'.'.join(map(str, first['loc']))}`: {first['msg']}.", _CORRECT
        ) from error
    deployment = SubjectDeployment(
        spec=spec,
        tensor_parallel=table.take("tensor_parallel", int, 1),
        context_parallel=table.take("context_parallel", int, 1),
        capture_sizes=table.counts("capture_sizes", ()),
    )
    table.finish()
    return deployment


def read_scope(table: Table) -> Scope:
    """The `[scope]` of a subject; without it the subject claims everything.

    Raises:
        UsageError: It is not a scope.
    """
    scope = Scope(
        compute_capabilities=table.strings("compute_capabilities", ()),
        tensor_parallel=table.counts("tensor_parallel", ()),
        context_parallel=table.counts("context_parallel", ()),
        draft_tokens=table.counts("draft_tokens", ()),
        maximum_concurrency=table.take("maximum_concurrency", int, 0) or None,
        maximum_prompt_tokens=table.take("maximum_prompt_tokens", int, 0) or None,
        preparation=_preparation(table.table("preparation", optional=True)),
        excuses=tuple(_excuse(one) for one in table.tables("excuses", optional=True)),
    )
    table.finish()
    return scope


def _preparation(table: Table) -> PreparationRule | None:
    always, limit = table.counts("always", ()), table.take("limit", int, 0)
    table.finish()
    if not always and not limit:
        return None
    if limit < max(always, default=1):
        raise UsageError(
            f"{table.where}: `limit` must be the largest token count that is ever prepared, found "
            f"{limit} beside `always` {list(always)}.",
            _CORRECT,
        )
    return PreparationRule(always=always, limit=limit)


def _excuse(table: Table) -> Excuse:
    excuse = Excuse(cells=table.take("cells", str), reason=table.take("reason", str))
    table.finish()
    if not excuse.reason.strip():
        raise UsageError(f"{table.where}: an excuse needs a reason.", _CORRECT)
    return excuse


def read_guess(table: Table) -> DurationGuess:
    """The `[guess]` of a subject; without it that of a small model on a CPU.

    Raises:
        UsageError: A key is missing or unknown.
    """
    if table.empty:
        return DEFAULT_GUESS
    guess = DurationGuess(
        load_s=table.number("load_s"),
        prefill_tokens_per_s=table.number("prefill_tokens_per_s"),
        step_ms=table.number("step_ms"),
        step_ms_per_request=table.number("step_ms_per_request"),
    )
    table.finish()
    return guess
