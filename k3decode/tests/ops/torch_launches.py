"""Plain-torch stand-ins with the launches' signatures.

With them the cases themselves are tested without a GPU: a right implementation must pass all of
them, and a wrong one must be caught.
"""

import torch
from torch import Tensor

from k3decode.ops.attn_res.reference import AttnResWeights, attn_res_mixture
from k3decode.ops.embedding.reference import embed
from k3decode.ops.kda.config import KdaConfig
from k3decode.ops.kda.launch import KdaStepWeights
from k3decode.ops.kda.reference import KdaProjection, KdaState, KdaWeights, kda_chunked
from k3decode.ops.router.reference import route


def attn_res(  # noqa: PLR0917
    prefix: Tensor,
    pending: Tensor | None,
    blocks: Tensor,
    direction: Tensor,
    output_norm: Tensor | None,
    out: Tensor,
    *,
    num_blocks: int,
    write_block: int | None,
    reset: bool,
    eps: float,
) -> None:
    if pending is not None:
        prefix.copy_(pending if reset else prefix + pending)
    if write_block is not None:
        blocks[write_block] = prefix
    weights = AttnResWeights(
        source_norm=direction,
        query=torch.ones_like(direction),
        output_norm=None if output_norm is None else output_norm.float(),
        eps=eps,
    )
    sources = (*blocks[:num_blocks].float(), prefix.float())
    out.copy_(attn_res_mixture(sources, weights))


def route_rows(
    logits: Tensor, bias: Tensor, experts: Tensor, weights: Tensor, *, scaling_factor: float
) -> None:
    found = route(logits, bias, experts.shape[1], scaling_factor)
    experts.copy_(found.experts)
    weights.copy_(found.weights)


def embed_rows(tokens: Tensor, table: Tensor, out: Tensor, *, first_token: int) -> None:
    out.view(torch.int16).copy_(embed(tokens, table, first_token).view(torch.int16))


def kda_step(  # noqa: PLR0917
    projection: Tensor,
    weights: KdaStepWeights,
    slots: Tensor,
    conv_state: Tensor,
    memory: Tensor,
    out: Tensor,
    *,
    config: KdaConfig,
    accepted: Tensor | None = None,
) -> None:
    q, channels = config.tokens, config.channels
    last = torch.zeros_like(slots[:, 0]).long() if accepted is None else accepted.long() - 1
    start = slots.gather(1, last[:, None])[:, 0].long()
    served = (slots[:, 0] > 0) & (start > 0)
    rows = out.unflatten(0, (-1, q))
    rows[~served] = 0.0
    used = projection[:, : config.projection_width].unflatten(0, (-1, q))[served]
    qkv, gate, factor, beta = used.float().split(
        [3 * channels, channels, config.gate_rank, config.heads], -1
    )
    raw_decay = (factor @ weights.f_b.float().T).to(torch.bfloat16).float()
    layer = _kda_layer(weights, config)
    window_pages = slots[served, 0].long()
    windows = conv_state[window_pages]
    places = last[served][:, None] + torch.arange(3)
    taps = windows.gather(1, places[..., None].expand(-1, -1, windows.shape[-1]))
    state = KdaState(taps=taps.float(), memory=memory[start[served]])
    # Prefixes of the tokens, each from the start: no state of one token leads to the next here.
    for t in range(q):
        found, after = kda_chunked(
            KdaProjection(
                qkv=qkv[:, : t + 1],
                gate=gate[:, : t + 1],
                raw_decay=raw_decay[:, : t + 1],
                raw_beta=beta[:, : t + 1],
            ),
            layer,
            state,
        )
        kept = slots[served, t] > 0
        memory[slots[served, t][kept].long()] = after.memory[kept]
    rows[served] = found.to(torch.bfloat16)
    conv_state[window_pages] = torch.cat([taps[:, 1:], used[..., : 3 * channels]], dim=1)


def _kda_layer(weights: KdaStepWeights, config: KdaConfig) -> KdaWeights:
    return KdaWeights(
        in_proj=torch.empty(0),
        f_b_proj=weights.f_b,
        o_proj=torch.empty(0),
        conv_weight=weights.conv,
        a_log=weights.a_log,
        dt_bias=weights.dt_bias,
        o_norm=weights.o_norm,
        gate_lower_bound=config.gate_lower_bound,
        qk_norm_eps=config.qk_norm_eps,
        norm_eps=config.norm_eps,
    )
