"""Launch of expert selection: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.router.config import RouterConfig

__all__ = ["compile_variant", "route_rows", "variants"]


def route_rows(
    logits: Tensor,
    bias: Tensor,
    experts: Tensor,
    weights: Tensor,
    *,
    scaling_factor: float,
) -> None:
    """Choose experts.

    Args:
        logits: FP32 [M, E], any row stride, free of NaN.
        bias: FP32 [E], finite; moves the selection and never the weights.
        experts: int32 [M, k], dense, written: best first, equal scores to the lower id.
        weights: FP32 [M, k], dense, written: renormalised scores of the chosen.
        scaling_factor: factor on the weights.

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
    architecture = check.finish()
    config = RouterConfig(
        num_experts=num_experts, experts_per_token=top_k, scaling_factor=scaling_factor
    )
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    compile_variant(config, architecture)(
        device_pointer(logits),
        device_pointer(bias),
        device_pointer(experts),
        device_pointer(weights),
        logits.stride(0),
        rows,
        current_stream(),
    )


@cache
def compile_variant(config: RouterConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.router.kernel import RouterKernel  # noqa: PLC0415

    fp32 = torch.float32
    arguments = placeholders([fp32, fp32, torch.int32, fp32], 1, 1)
    return compile_kernel(RouterKernel(config), arguments, architecture)


def variants(dims: K3Dims) -> dict[str, RouterConfig]:
    """The one variant a model needs."""
    config = RouterConfig(
        num_experts=dims.num_experts,
        experts_per_token=dims.num_experts_per_token,
        scaling_factor=dims.routed_scaling_factor,
    )
    return {f"top_{dims.num_experts_per_token}_of_{dims.num_experts}": config}
