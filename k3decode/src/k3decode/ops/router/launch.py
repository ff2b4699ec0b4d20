"""Launch of expert selection: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.host.row_prefetch import RowPrefetch, check_prefetch, prefetch_counts
from k3decode.ops.router.config import RouterConfig

__all__ = ["compile_variant", "route_rows", "variants"]


def route_rows(
    logits: Tensor,
    bias: Tensor,
    experts: Tensor,
    weights: Tensor,
    *,
    scaling_factor: float,
    prefetch: RowPrefetch | None = None,
) -> None:
    """Choose experts.

    Args:
        logits: FP32 [M, E], any row stride, free of NaN.
        bias: FP32 [E], finite; moves the selection and never the weights.
        experts: int32 [M, k], dense, written: best first, equal scores to the lower id.
        weights: FP32 [M, k], dense, written: renormalised scores of the chosen.
        scaling_factor: factor on the weights.
        prefetch: weights of a later launch that are brought into the L2 cache meanwhile.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows, top_k = experts.shape if experts.ndim == 2 else (0, 0)  # noqa: PLR2004
    num_experts = bias.shape[0] if bias.ndim else 0
    check = InputCheck("router")
    check.rows(rows)
    check.tensor("logits", logits, dtype=torch.float32, shape=[rows, num_experts])
    check.tensor("bias", bias, dtype=torch.float32, shape=[num_experts], dense_from=0)
    check.tensor("experts", experts, dtype=torch.int32, shape=[rows, top_k], dense_from=0)
    check.tensor("weights", weights, dtype=torch.float32, shape=[rows, top_k], dense_from=0)
    check_prefetch(check, prefetch)
    architecture = check.finish()
    config = RouterConfig(
        num_experts=num_experts, experts_per_token=top_k, scaling_factor=scaling_factor
    )
    from k3decode.host.compilation import (  # noqa: PLC0415
        current_stream,
        device_pointer,
        vector_pointer,
    )

    ahead_pitch, ahead_rows, ahead_bytes = prefetch_counts(prefetch)
    compile_variant(config, architecture)(
        device_pointer(logits),
        device_pointer(bias),
        device_pointer(experts),
        device_pointer(weights),
        vector_pointer(weights if prefetch is None else prefetch.rows),
        logits.stride(0),
        ahead_pitch,
        rows,
        ahead_rows,
        ahead_bytes,
        current_stream(),
    )


@cache
def compile_variant(config: RouterConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.router.kernel import RouterKernel  # noqa: PLC0415

    fp32 = torch.float32
    arguments = placeholders([fp32, fp32, torch.int32, fp32, torch.uint8], 2, 3)
    return compile_kernel(RouterKernel(config), arguments, architecture)


def variants(dims: K3Dims) -> dict[str, RouterConfig]:
    """The one variant a model needs."""
    config = RouterConfig(
        num_experts=dims.num_experts,
        experts_per_token=dims.num_experts_per_token,
        scaling_factor=dims.routed_scaling_factor,
    )
    return {f"top_{dims.num_experts_per_token}_of_{dims.num_experts}": config}
