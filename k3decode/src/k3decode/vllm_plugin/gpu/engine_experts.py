"""Routed experts on their way into the engine: packed for our kernels before the engine reorders.

The engine reorders MXFP4 bytes in place for its own kernels, which read prompts, so both orders are
kept: nothing of the engine's can be released while it serves prompts.
"""

from collections.abc import Callable
from typing import Any

from k3decode.dims import K3Dims
from k3decode.ops.experts.launch import weight_layout
from k3decode.ops.experts.packing import PackedExperts, pack_experts

__all__ = ["pack_before_reordering"]


def pack_before_reordering(
    experts: Any, dims: K3Dims, number: int, keep: Callable[[PackedExperts], None]
) -> None:
    """Have a layer's experts packed as soon as they are loaded.

    Args:
        experts: the engine's module of the routed experts; its method of quantisation is its own.
        dims: widths of the rank.
        number: 0-based layer number, for the sentence.
        keep: takes what was packed.
    """
    method = experts.quant_method
    reorder: Callable[[Any], None] = method.process_weights_after_loading

    def pack_and_reorder(loaded: Any) -> None:
        keep(_packed(loaded, dims, number))
        reorder(loaded)

    method.process_weights_after_loading = pack_and_reorder


def _packed(loaded: Any, dims: K3Dims, number: int) -> PackedExperts:
    tensors = [
        getattr(loaded, name).data
        for name in ("w13_weight", "w13_weight_scale", "w2_weight", "w2_weight_scale")
    ]
    experts, inner, latent = (
        dims.num_experts,
        dims.expert_intermediate_size,
        dims.latent_size,
    )
    wanted = [experts, latent, inner // 2]
    if list(tensors[2].shape) != wanted:
        raise ValueError(
            f"layer {number}: expected second matrices of experts as {wanted}, found "
            f"{list(tensors[2].shape)}: the engine pads them, ask for decode_backend stock"
        )
    return pack_experts(*tensors, layout=weight_layout(tensors[0].device))
