"""Reference of KDA over paged state, where a request may bring drafts that are judged later.

Each request has as many pages as tokens. The state after token t goes to page t, so whatever number
of tokens turns out to be accepted, the state after the last of them is already there: the next step
reads page `accepted - 1`, and nothing is ever rolled back. Taps are kept once, in page 0: the three
that the oldest possible continuation needs and then all that followed.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from k3decode.ops.kda.reference import (
    KdaForm,
    KdaProjection,
    KdaState,
    KdaWeights,
    kda_recurrent,
)

__all__ = ["KdaPages", "kda_after_each_token", "kda_verify"]


@dataclass(frozen=True)
class KdaPages:
    """State of all requests; page 0 belongs to none."""

    conv: Tensor
    """Raw q | k | v rows, oldest first, [P, W - 2 + q, 3 C] for W taps and q tokens."""
    memory: Tensor
    """[P, H, V, K]"""


def kda_after_each_token(
    projection: KdaProjection, weights: KdaWeights, state: KdaState, form: KdaForm = kda_recurrent
) -> tuple[Tensor, Tensor]:
    """Apply the rule to q tokens and keep what each of them leaves.

    Returns:
        Gated rows [B, q, C] and memories [B, q, H, V, K].
    """
    rows, memories = [], []
    for t in range(projection.gate.shape[1]):
        token = slice(t, t + 1)
        row, state = form(_tokens(projection, token), weights, state)
        rows.append(row)
        memories.append(state.memory)
    return torch.cat(rows, dim=1), torch.stack(memories, dim=1)


def kda_verify(
    projection: KdaProjection,
    weights: KdaWeights,
    pages: KdaPages,
    slots: Tensor,
    accepted: Tensor,
    *,
    form: KdaForm = kda_recurrent,
) -> Tensor:
    """Advance requests by q tokens each, a token and its drafts.

    Args:
        projection: the tokens' projections, [B, q, ...].
        weights: the layer's weights.
        pages: state of all requests; updated in place.
        slots: page of each token, [B, q]. A request whose first or starting page is zero or less
            is padding: rows of zeros, no state touched. A later page of zero or less drops the
            state after its token.
        accepted: tokens of each request that the step before kept, 1 to q, [B].
        form: rule for the tokens of one request.

    Returns:
        Gated rows before the output projection, [B, q, C].
    """
    taps = weights.conv_weight.shape[1] - 1
    out = torch.zeros_like(projection.gate)
    for b in range(slots.shape[0]):
        first = int(accepted[b]) - 1
        window_page, start_page = int(slots[b, 0]), int(slots[b, first])
        if window_page <= 0 or start_page <= 0:
            continue
        window = pages.conv[window_page, first : first + taps]
        state = KdaState(taps=window[None], memory=pages.memory[start_page][None])
        own = _request(projection, b)
        rows, memories = kda_after_each_token(own, weights, state, form)
        out[b] = rows[0]
        pages.conv[window_page] = torch.cat([window[1:], own.qkv[0]])
        for t, page in enumerate(slots[b].tolist()):
            if page > 0:
                pages.memory[page] = memories[0, t]
    return out


def _tokens(projection: KdaProjection, chosen: slice) -> KdaProjection:
    return replace(
        projection,
        qkv=projection.qkv[:, chosen],
        gate=projection.gate[:, chosen],
        raw_decay=projection.raw_decay[:, chosen],
        raw_beta=projection.raw_beta[:, chosen],
    )


def _request(projection: KdaProjection, request: int) -> KdaProjection:
    own = slice(request, request + 1)
    return KdaProjection(
        qkv=projection.qkv[own],
        gate=projection.gate[own],
        raw_decay=projection.raw_decay[own],
        raw_beta=projection.raw_beta[own],
    )
