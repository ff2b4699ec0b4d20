"""Launch of the MoE tail: check the inputs, compile once, launch."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.host.inputs import InputCheck
from k3decode.ops.moe_tail.config import MoeTailConfig

__all__ = ["add_shared", "compile_variant", "config_for", "variants"]

_VECTOR_WIDTH = 8


def add_shared(routed: Tensor, shared: Tensor, out: Tensor, *, config: MoeTailConfig) -> None:
    """Add the shared expert's rows to the up-projected routed rows.

    Both are reduced over all ranks and rounded to BF16 by their projections; the sum is rounded
    once.

    Args:
        routed: BF16 [M, D], row stride a multiple of 8.
        shared: BF16 [M, D], row stride a multiple of 8.
        out: BF16 [M, D], row stride a multiple of 8, written; may be one of the inputs.
        config: variant to run.

    Raises:
        KernelInputError: an input is not as described.
        UnsupportedGpuError: no kernel for this GPU.
    """
    rows = out.shape[0] if out.ndim else 0
    check = InputCheck("moe_tail")
    check.rows(rows)
    tensors = {"routed": routed, "shared": shared, "out": out}
    for name, tensor in tensors.items():
        check.tensor(
            name,
            tensor,
            dtype=torch.bfloat16,
            shape=[rows, config.width],
            stride_multiple=_VECTOR_WIDTH,
        )
    architecture = check.finish()
    from k3decode.host.compilation import current_stream, device_pointer  # noqa: PLC0415

    compile_variant(config, architecture)(
        *(device_pointer(tensor) for tensor in tensors.values()),
        *(tensor.stride(0) for tensor in tensors.values()),
        rows,
        current_stream(),
    )


@cache
def compile_variant(config: MoeTailConfig, architecture: str) -> Any:
    """Compile one variant, once per process."""
    from k3decode.host.compilation import compile_kernel, placeholders  # noqa: PLC0415
    from k3decode.ops.moe_tail.kernel import MoeTailKernel  # noqa: PLC0415

    arguments = placeholders([torch.bfloat16] * 3, 3, 1)
    return compile_kernel(MoeTailKernel(config), arguments, architecture)


def config_for(dims: K3Dims) -> MoeTailConfig:
    """The one variant a model needs."""
    return MoeTailConfig(width=dims.hidden_size)


def variants(dims: K3Dims) -> dict[str, MoeTailConfig]:
    """The one variant a model needs."""
    return {f"{dims.hidden_size}_columns": config_for(dims)}
