"""Whether a cell's requests are the planned ones, each exactly once, with equal prompts.

Without this, a prompt that one arm could not answer would vanish from the numbers.
"""

from collections import Counter
from collections.abc import Sequence

from k3bundle.derive.features import VARIANTS
from k3bundle.derive.problem import Problem
from k3bundle.derive.selection import CellBoot
from k3bundle.derive.sentences import listed
from k3bundle.plan import FeatureCell, GreedyCell, ServingCell
from k3bundle.request import RequestRecord
from k3bundle.schedule import RunnableCell, prompt_count, requested_tokens

__all__ = ["length_problem", "measured_requests", "requests_problem"]

_MEASURED = ("measured",)


def measured_requests(boot: CellBoot) -> tuple[RequestRecord, ...]:
    """The requests of a serving or greedy cell without warm-up, by prompt."""
    return tuple(request for request in boot.requests if request.variant == "measured")


def requests_problem(cell: RunnableCell, boots: Sequence[CellBoot]) -> Problem | None:
    """Say which planned requests are missing, doubled or differ between boots.

    Args:
        cell: The planned cell.
        boots: The boots that finished it.

    Returns:
        The first problem; None when every boot holds the planned requests.
    """
    variants = VARIANTS[cell.feature] if isinstance(cell, FeatureCell) else _MEASURED
    planned = prompt_count(cell)
    prompts: dict[int, str] = {}
    for boot in boots:
        where = f"in boot {boot.slot.slot}"
        counts = Counter((r.index, r.variant) for r in boot.requests if r.variant in variants)
        doubled = [f"prompt {i} ({v})" for (i, v), count in sorted(counts.items()) if count > 1]
        if doubled:
            return _missing(f"Requests are recorded twice {where}: {listed(doubled)}.")
        indices = {index for index, _ in counts}
        if len(indices) != planned or len(counts) != planned * len(variants):
            due = planned * len(variants)
            return _missing(f"{len(counts)} of {due} planned requests are recorded {where}.")
        for request in boot.requests:
            if request.variant not in variants:
                continue
            if prompts.setdefault(request.index, request.prompt_sha256) != request.prompt_sha256:
                first = boots[0].slot.slot
                reason = f"Prompt {request.index} {where} is not the prompt of boot {first}."
                return _missing(reason)
        if len(prompts) != planned:
            return _missing(f"The prompt numbers {where} are not those of the boots before it.")
    return None


def length_problem(
    cell: ServingCell | GreedyCell, boots: Sequence[tuple[CellBoot, Sequence[RequestRecord]]]
) -> Problem | None:
    """Say which requests were answered with another than the planned number of tokens.

    Args:
        cell: The planned cell.
        boots: Boots with their measured requests.
    """
    for boot, measured in boots:
        offenders: list[str] = []
        for request in measured:
            outcome = request.outcome
            if outcome.status == "failed":
                if outcome.error == "wrong_length":
                    offenders.append(f"prompt {request.index}: {outcome.detail}")
                continue
            exact = request.exact_length and outcome.completion_tokens != request.requested_tokens
            if exact or request.requested_tokens != requested_tokens(cell, request.index):
                tokens = f"{outcome.completion_tokens} of {request.requested_tokens} asked for"
                offenders.append(f"prompt {request.index} has {tokens}")
        if offenders:
            return Problem(
                "wrong_length",
                f"{len(offenders)} of {len(measured)} requests in boot {boot.slot.slot} "
                f"({boot.slot.arm}) do not have the planned tokens: {listed(offenders)}.",
            )
    return None


def _missing(reason: str) -> Problem:
    return Problem("missing_requests", reason)
