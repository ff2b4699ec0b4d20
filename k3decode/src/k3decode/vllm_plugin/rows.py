"""The engine's batch metadata as runs of equally long requests, and as facts for the plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from k3decode.decode.facts import StepFacts

__all__ = ["PlainRun", "StepRows", "VerifyRun", "read_rows", "step_facts"]


@dataclass(frozen=True)
class PlainRun:
    """n requests without drafts, each with q new tokens."""

    rows: Tensor
    """Their rows in the flat batch, [n, q]."""
    pages: Tensor
    """State page of each, [n]."""
    fresh: Tensor
    """Whether each starts from zeros, because its page holds another request's state, [n]."""


@dataclass(frozen=True)
class VerifyRun:
    """n requests with drafts, each with q new tokens; state is kept after every token."""

    rows: Tensor
    """Their rows in the flat batch, [n, q]."""
    source_pages: Tensor
    """Page that holds the state after the last accepted token, [n]."""
    target_pages: Tensor
    """Pages for the states after each of the q tokens, [n, q]."""


@dataclass(frozen=True)
class StepRows:
    """One step as one group of recurrent layers sees it."""

    plain: tuple[PlainRun, ...]
    verify: tuple[VerifyRun, ...]


def _by_length(starts: Sequence[int]) -> dict[int, list[int]]:
    """Requests by query length; padding requests have length zero and are left out."""
    groups: dict[int, list[int]] = {}
    for request, (begin, end) in enumerate(pairwise(starts)):
        if end > begin:
            groups.setdefault(end - begin, []).append(request)
    return groups


def _flat_rows(
    requests: list[int], length: int, starts: Sequence[int], order: Tensor | None
) -> Tensor:
    begins = torch.tensor([starts[request] for request in requests])
    rows = begins[:, None] + torch.arange(length)
    return rows if order is None else order.long()[rows]


def read_rows(metadata: Any) -> StepRows:
    """Sort the rows of a step by what has to be done with them.

    Args:
        metadata: the engine's gated-delta-rule metadata of one layer group.
    """
    drafts = metadata.num_spec_decodes > 0
    plain: list[PlainRun] = []
    if metadata.non_spec_query_start_loc is not None:
        starts = metadata.non_spec_query_start_loc.tolist()
        order = metadata.non_spec_token_indx if drafts else None
        for length, requests in _by_length(starts).items():
            chosen = torch.tensor(requests)
            has_state = metadata.has_initial_state
            fresh = torch.zeros(len(requests), dtype=torch.bool)
            plain.append(
                PlainRun(
                    rows=_flat_rows(requests, length, starts, order),
                    pages=metadata.non_spec_state_indices_tensor[chosen].long(),
                    fresh=fresh if has_state is None else ~has_state[chosen],
                )
            )
    return StepRows(plain=tuple(plain), verify=_verify_runs(metadata) if drafts else ())


def _verify_runs(metadata: Any) -> tuple[VerifyRun, ...]:
    starts = metadata.spec_query_start_loc[: metadata.num_spec_decodes + 1].tolist()
    runs = []
    for length, requests in _by_length(starts).items():
        chosen = torch.tensor(requests)
        pages = metadata.spec_state_indices_tensor[chosen].long()
        accepted = metadata.num_accepted_tokens[chosen].long()
        runs.append(
            VerifyRun(
                rows=_flat_rows(requests, length, starts, metadata.spec_token_indx),
                source_pages=pages.gather(1, (accepted - 1)[:, None])[:, 0],
                target_pages=pages[:, :length],
            )
        )
    return tuple(runs)


def step_facts(rows: StepRows) -> StepFacts:
    """Facts of a step for the plan.

    A request that was offered drafts and got none counts as a decode request; so does the last
    token of a prompt whose rest was read or cached before.
    """
    decode = prompts = prompt_rows = 0
    for run in rows.plain:
        requests, length = run.rows.shape
        first_reads = int(run.fresh.sum()) if length == 1 else requests
        decode += requests - first_reads
        prompts += first_reads
        prompt_rows += first_reads * length
    lengths = {run.rows.shape[1]: run.rows.shape[0] for run in rows.verify}
    with_drafts = {length: count for length, count in lengths.items() if length > 1}
    return StepFacts(
        decode_requests=decode + lengths.get(1, 0),
        verify_requests=sum(with_drafts.values()),
        verify_rows=sum(length * count for length, count in with_drafts.items()),
        longest_draft=max(with_drafts, default=1) - 1,
        uniform_verify=len(lengths) <= 1 and not (with_drafts and decode),
        prompt_requests=prompts,
        prompt_rows=prompt_rows,
    )
