"""Launch of the routed experts: check the inputs, compile once, launch both kernels."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.formats import MXFP4_GROUP
from k3decode.host.inputs import MAX_ROWS, InputCheck
from k3decode.mxfp4_blocks import BLOCK_BYTES, BLOCK_ROWS
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.packing import PackedExperts

__all__ = ["compile_variant", "config_for", "run_experts", "variants"]

_VECTOR_WIDTH = 8
_BF16_PER_WORD = 2
# Every warp of the second kernel keeps sums of every row in shared memory: more rows, fewer warps.
_FEW_ROWS = 32
_FEW_ROWS_WARPS = 16
_WARPS = 14


def run_experts(  # noqa: PLR0917
    latent: Tensor,
    experts: Tensor,
    shares: Tensor,
    packed: PackedExperts,
    inner: Tensor,
    out: Tensor,
    *,
    config: ExpertsConfig,
) -> None:
    """Compute each row's weighted sum over its experts.

    Inner activations are rounded to BF16 and the sum once more; an expert's output and its weight
    are not rounded. Sums have one order, so equal inputs give equal bits; the order of a row's
    experts depends on which experts the other rows chose.

    Args:
        latent: BF16 [M, L], row stride a multiple of 8.
        experts: int32 [M, k], dense, no id twice in a row; an id outside the experts is skipped,
            and a row without experts gets zeros.
        shares: FP32 [M, k], dense, weights of the choices.
        packed: the layer's weights, as `pack_experts` orders them.
        inner: BF16 [N, I], dense, N at least M * k: workspace, overwritten.
        out: BF16 [M, L], written.
        config: variants to run.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows = out.shape[0] if out.ndim else 0
    check = InputCheck("experts")
    check.rows(rows)
    check.require(
        rows <= config.max_rows,
        f"out: expected at most {config.max_rows} rows as the config says, found {rows}: take the "
        "config for as many rows",
    )
    architecture = _checked(check, (latent, experts, shares, inner, out), packed, rows, config)
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    gate_up, down = compile_variant(config, architecture)
    stream = current_stream()
    gate_up(
        *(device_pointer(tensor) for tensor in (latent, experts, packed.gate_up)),
        *(device_pointer(tensor) for tensor in (packed.gate_up_scales, inner)),
        latent.stride(0) // _BF16_PER_WORD,
        rows,
        _ctas(latent.device, rows, config),
        stream,
    )
    down(
        *(device_pointer(tensor) for tensor in (inner, experts, shares, packed.down)),
        *(device_pointer(tensor) for tensor in (packed.down_scales, out)),
        out.stride(0),
        rows,
        stream,
    )


def _ctas(device: torch.device, rows: int, config: ExpertsConfig) -> int:
    """As many as the GPU holds at a time, and no more than there can be tiles."""
    resident = config.gate_up_ctas_per_sm * _multiprocessors(device)
    return min(resident, min(rows * config.top_k, config.num_experts) * config.gate_up_tiles)


@cache
def _multiprocessors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _checked(
    check: InputCheck,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    packed: PackedExperts,
    rows: int,
    config: ExpertsConfig,
) -> str:
    latent, experts, shares, inner, out = tensors
    c, bf16 = config, torch.bfloat16
    row = [rows, c.latent_size]
    check.tensor("latent", latent, dtype=bf16, shape=row, stride_multiple=_VECTOR_WIDTH)
    choices = [rows, c.top_k]
    check.tensor("experts", experts, dtype=torch.int32, shape=choices, dense_from=0)
    check.tensor("shares", shares, dtype=torch.float32, shape=choices, dense_from=0)
    check.tensor("inner", inner, dtype=bf16, shape=[None, c.inner_size], dense_from=0)
    check.require(
        inner.ndim == 0 or inner.shape[0] >= rows * c.top_k,
        f"inner: expected at least {rows * c.top_k} rows, found {list(inner.shape)}",
    )
    check.tensor("out", out, dtype=bf16, shape=row)
    groups = (c.latent_size // MXFP4_GROUP, c.inner_size // MXFP4_GROUP)
    for name, tiles, columns in (
        ("gate_up", c.gate_up_tiles, groups[0]),
        ("down", c.down_tiles, groups[1]),
    ):
        for field, width in ((name, BLOCK_BYTES), (f"{name}_scales", BLOCK_ROWS)):
            shape = [c.num_experts, tiles, columns, width]
            tensor = getattr(packed, field)
            check.tensor(field, tensor, dtype=torch.uint8, shape=shape, dense_from=0)
    check.require(
        c.wide_scales or not packed.wide_scales,
        "packed: expected scale bytes up to 127 as the config says, found larger ones: set "
        "wide_scales",
    )
    return check.finish()


@cache
def compile_variant(config: ExpertsConfig, architecture: str) -> tuple[Any, Any]:
    """Compile both kernels of a variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.experts.kernel import DownKernel, GateUpKernel  # noqa: PLC0415

    bf16, fp32, int32, uint8 = torch.bfloat16, torch.float32, torch.int32, torch.uint8
    gate_up = placeholders([bf16, int32, uint8, uint8, bf16], 1, 2)
    down = placeholders([bf16, int32, fp32, uint8, uint8, bf16], 1, 1)
    return (
        compile_kernel(GateUpKernel(config), gate_up, architecture),
        compile_kernel(DownKernel(config), down, architecture),
    )


def config_for(dims: K3Dims, ranks: int, *, rows: int, wide_scales: bool) -> ExpertsConfig:
    """Variant of a model whose experts are split over a number of ranks, for batches of `rows`.

    Raises:
        ValueError: the ranks do not divide the experts' inner width, or a kernel cannot hold it.
    """
    if ranks < 1 or dims.expert_intermediate_size % ranks:
        raise ValueError(
            f"expected a number of ranks that divides the inner width "
            f"{dims.expert_intermediate_size}, found {ranks}: use 8 or 16"
        )
    return ExpertsConfig(
        num_experts=dims.num_experts,
        top_k=dims.num_experts_per_token,
        latent_size=dims.latent_size,
        inner_size=dims.expert_intermediate_size // ranks,
        situ_beta=dims.situ_beta,
        situ_linear_beta=dims.situ_linear_beta,
        wide_scales=wide_scales,
        max_rows=_FEW_ROWS if rows <= _FEW_ROWS else MAX_ROWS,
        down_warps=_FEW_ROWS_WARPS if rows <= _FEW_ROWS else _WARPS,
    )


def variants(dims: K3Dims) -> dict[str, ExpertsConfig]:
    """Shards of eight and sixteen ranks, few and many rows, without and with large scales."""
    return {
        f"tp{ranks}_m{rows}_{name}": config_for(dims, ranks, rows=rows, wide_scales=wide_scales)
        for ranks in (8, 16)
        for name, wide_scales in (("narrow", False), ("wide", True))
        for rows in (_FEW_ROWS, MAX_ROWS)
    }
