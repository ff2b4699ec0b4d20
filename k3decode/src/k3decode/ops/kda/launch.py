"""Launch of one KDA decode or verify step: check the inputs, compile once, launch."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import MAX_ROWS, InputCheck
from k3decode.ops.kda.config import MAX_TOKENS, KdaConfig

__all__ = ["KdaStepWeights", "compile_variant", "config_for", "kda_step", "variants"]

_VECTOR_WIDTH = 8
_STATE_VECTOR_WIDTH = 4
# Four CTAs for a head: 7.1 us instead of 7.9 at one request of 12 heads on an H200. With many heads
# they only get in each other's way: 46 us instead of 41 at 64 requests.
_SPLIT = 4
_FEW_HEADS = 128


@dataclass(frozen=True)
class KdaStepWeights:
    """What the step needs of a layer; C = H * K local channels."""

    f_b: Tensor
    """Second factor of the decay gate, BF16 [C, 128], dense."""
    conv: Tensor
    """FP32 [3 C, 4], channels q | k | v, dense; the last tap multiplies the newest input."""
    a_log: Tensor
    """FP32 [H]."""
    dt_bias: Tensor
    """FP32 [C]."""
    o_norm: Tensor
    """FP32 [128], shared by the heads."""


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
    """Advance each request's state by its q tokens and write their gated outputs.

    Tokens of a request are consecutive rows. With q above one they are a token and its drafts: the
    state starts from page `slots[b, accepted[b] - 1]`, and the state after token t is written to
    page `slots[b, t]`. Taps live in page `slots[b, 0]` only: those of the accepted tokens start at
    row `accepted[b] - 1`, and the two newest of them and the q new rows are written back.

    Args:
        projection: BF16 [B q, W], W at least q C | k C | v C | gate C | f_a 128 | beta H, row
            stride a multiple of 8.
        weights: the layer's.
        slots: int32 [B, q], requests at any stride, no positive page in two requests. A request
            whose first or starting page is zero or less writes zeros to its rows and touches no
            state; a later page of zero or less drops the state after its token. May be written by
            the launch before, if what stood there until then are pages or not positive: it says
            what is brought into the L2 cache early.
        conv_state: BF16 [P, q + 2, 3 C], pages at any stride, oldest tap first; updated in place.
        memory: FP32 [P, H, 128, 128], pages at a stride that is a multiple of 4; in place.
        out: BF16 [B q, C], row stride a multiple of 8, written.
        config: variant to run; q is its `tokens`.
        accepted: int32 [B], tokens of each request that the step before kept, 1 to q, which is not
            checked; None if and only if q is one.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    check = InputCheck("kda")
    requests = _check_rows(check, projection, out, config)
    _check_weights(check, weights, config)
    _check_slots(check, slots, accepted, requests, config)
    _check_state(check, conv_state, memory, config)
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    tensors = (
        projection,
        weights.f_b,
        weights.conv,
        weights.a_log,
        weights.dt_bias,
        weights.o_norm,
        slots,
        slots if accepted is None else accepted,
        conv_state,
        memory,
        out,
    )
    compile_variant(config, architecture)(
        *(device_pointer(tensor) for tensor in tensors),
        projection.stride(0),
        slots.stride(0),
        conv_state.stride(0),
        memory.stride(0),
        out.stride(0),
        requests,
        current_stream(),
    )


def _check_slots(
    check: InputCheck, slots: Tensor, accepted: Tensor | None, requests: int, config: KdaConfig
) -> None:
    check.tensor("slots", slots, dtype=torch.int32, shape=[requests, config.tokens])
    if accepted is not None:
        check.tensor("accepted", accepted, dtype=torch.int32, shape=[requests], dense_from=0)
    check.require(
        (accepted is None) == (config.tokens == 1),
        f"accepted: expected None with one token per request and int32 [{requests}] with more, "
        f"found {'None' if accepted is None else 'a tensor'} with {config.tokens}",
    )


def _check_rows(check: InputCheck, projection: Tensor, out: Tensor, config: KdaConfig) -> int:
    """Return the number of requests."""
    rows = out.shape[0] if out.ndim else 0
    check.rows(rows)
    check.require(
        rows % config.tokens == 0,
        f"out: expected a multiple of {config.tokens} rows, {config.tokens} tokens per request, "
        f"found {rows}",
    )
    check.tensor(
        "out",
        out,
        dtype=torch.bfloat16,
        shape=[rows, config.channels],
        stride_multiple=_VECTOR_WIDTH,
    )
    check.tensor(
        "projection",
        projection,
        dtype=torch.bfloat16,
        shape=[rows, None],
        stride_multiple=_VECTOR_WIDTH,
    )
    check.require(
        projection.ndim == 0 or projection.shape[-1] >= config.projection_width,
        f"projection: expected at least {config.projection_width} columns, found "
        f"{list(projection.shape)}",
    )
    return rows // config.tokens


def _check_weights(check: InputCheck, weights: KdaStepWeights, config: KdaConfig) -> None:
    channels = config.channels
    check.tensor(
        "f_b",
        weights.f_b,
        dtype=torch.bfloat16,
        shape=[channels, config.gate_rank],
        dense_from=0,
    )
    shapes = {
        "conv": [3 * channels, config.conv_taps],
        "a_log": [config.heads],
        "dt_bias": [channels],
        "o_norm": [config.head_dim],
    }
    for name, shape in shapes.items():
        check.tensor(name, getattr(weights, name), dtype=torch.float32, shape=shape, dense_from=0)


def _check_state(check: InputCheck, conv_state: Tensor, memory: Tensor, config: KdaConfig) -> None:
    pages = memory.shape[0] if memory.ndim else 0
    check.tensor(
        "conv_state",
        conv_state,
        dtype=torch.bfloat16,
        shape=[pages, config.window, 3 * config.channels],
    )
    check.tensor(
        "memory",
        memory,
        dtype=torch.float32,
        shape=[pages, config.heads, config.head_dim, config.head_dim],
        stride_multiple=_STATE_VECTOR_WIDTH,
    )


@cache
def compile_variant(config: KdaConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.kda.kernel import KdaKernel  # noqa: PLC0415

    bf16, fp32 = torch.bfloat16, torch.float32
    int32 = torch.int32
    pointers = [bf16, bf16, fp32, fp32, fp32, fp32, int32, int32, bf16, fp32, bf16]
    return compile_kernel(KdaKernel(config), placeholders(pointers, 5, 1), architecture)


def config_for(dims: K3Dims, heads: int, tokens: int = 1, requests: int = MAX_ROWS) -> KdaConfig:
    """Variant of a model.

    Args:
        dims: the model's.
        heads: local heads.
        tokens: of each request.
        requests: of a step; few of them take several CTAs for each head.
    """
    return KdaConfig(
        heads=heads,
        tokens=tokens,
        head_dim=dims.kda_head_dim,
        gate_rank=dims.kda_gate_rank,
        conv_taps=dims.kda_conv_taps,
        gate_lower_bound=dims.kda_gate_lower_bound,
        qk_norm_eps=dims.kda_qk_norm_eps,
        norm_eps=dims.rms_norm_eps,
        split=_SPLIT if tokens == 1 and requests * heads <= _FEW_HEADS else 1,
    )


def variants(dims: K3Dims) -> dict[str, KdaConfig]:
    """Shards of eight and sixteen ranks, with none to seven drafts; all heads without drafts.

    Without drafts there is one more variant for few requests.
    """
    heads = dims.num_attention_heads
    found = {
        f"tp1_{heads}_heads": config_for(dims, heads),
        f"tp1_{heads}_heads_few": config_for(dims, heads, requests=1),
    }
    for ranks in (8, 16):
        shard = dims.shard(ranks).num_attention_heads
        found[f"tp{ranks}_{shard}_heads_few"] = config_for(dims, shard, requests=1)
        for tokens in range(1, MAX_TOKENS + 1):
            name = f"tp{ranks}_{shard}_heads" + (f"_q{tokens}" if tokens > 1 else "")
            found[name] = config_for(dims, shard, tokens)
    return found
