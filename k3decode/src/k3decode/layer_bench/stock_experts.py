"""vLLM's routed experts alone, on drawn choices: Humming of a running engine, Marlin on weights of
its own layout.

Both do what an `experts` launch does: from latent rows and chosen experts to each row's weighted
sum. Bits of Marlin's weights are random, which its time does not depend on.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from k3decode.dims import K3Dims
from k3decode.formats import MXFP4_GROUP

__all__ = ["MarlinExperts", "engine_experts"]

_MARLIN_TILE = 16
_SCALE_BYTE = 120
_BLOCKS_PER_SM = 4


def engine_experts(
    model: Any, config: Any, latent: Tensor, experts: Tensor, shares: Tensor
) -> list[Callable[[], None]]:
    """A launch for each of the first layers of an engine's model.

    Args:
        model: the engine's.
        config: the engine's.
        latent: BF16 [M, L].
        experts: int32 [layers, M, k].
        shares: FP32, of the same shape.
    """
    from vllm.forward_context import set_forward_context  # noqa: PLC0415

    layers = [
        module.routed_experts
        for module in model.modules()
        if hasattr(module, "routed_experts") and hasattr(module, "router")
    ]

    def launch(number: int) -> Callable[[], None]:
        def run() -> None:
            with set_forward_context(None, config, num_tokens=latent.shape[0]):
                layers[number].forward_modular(
                    x=latent, topk_weights=shares[number], topk_ids=experts[number]
                )

        return run

    return [launch(number) for number in range(len(experts))]


class MarlinExperts:
    """Weights of a few layers in Marlin's layout."""

    def __init__(self, dims: K3Dims, layers: int) -> None:
        """Take the memory: as many bytes as the checkpoint has for these layers."""
        self._dims = dims
        inner, latent, count = dims.expert_intermediate_size, dims.latent_size, dims.num_experts

        def words(rows: int, columns: int) -> list[Tensor]:
            shape = (count, rows // _MARLIN_TILE, 2 * columns)
            return [
                torch.empty(shape, dtype=torch.int32, device="cuda").random_()
                for _ in range(layers)
            ]

        def scales(rows: int, columns: int) -> Tensor:
            shape = (count, rows // MXFP4_GROUP, columns)
            found = torch.full(shape, _SCALE_BYTE, dtype=torch.uint8, device="cuda")
            return found.view(torch.float8_e8m0fnu)

        self._gate_up, self._down = words(latent, 2 * inner), words(inner, latent)
        self._scales = [(scales(latent, 2 * inner), scales(inner, latent)) for _ in range(layers)]

    def launches(self, latent: Tensor, experts: Tensor, shares: Tensor) -> list[Callable[[], None]]:
        """A launch for each layer, arranged by vLLM's own function.

        Args:
            latent: BF16 [M, L].
            experts: int32 [layers, M, k].
            shares: FP32, of the same shape.
        """
        return [
            self._launch(number, latent, experts[number], shares[number])
            for number in range(len(self._scales))
        ]

    def _launch(
        self, number: int, latent: Tensor, experts: Tensor, shares: Tensor
    ) -> Callable[[], None]:
        from vllm.model_executor.layers.fused_moe.experts.marlin_moe import (  # noqa: PLC0415
            fused_marlin_moe,
        )
        from vllm.scalar_type import scalar_types  # noqa: PLC0415

        gate_up_scales, down_scales = self._scales[number]
        weights = (self._gate_up[number], self._down[number])
        no_biases = (None, None)
        more = {**_situ(self._dims), **_workspace(self._dims, latent, experts.numel())}

        def run() -> None:
            fused_marlin_moe(
                latent,
                *weights,
                *no_biases,
                gate_up_scales,
                down_scales,
                shares,
                experts,
                scalar_types.float4_e2m1f.id,
                global_num_experts=self._dims.num_experts,
                moe_sum=_add_slots,
                **more,
            )

        return run


def _situ(dims: K3Dims) -> dict[str, Any]:
    from vllm.model_executor.layers.fused_moe.activation import (  # noqa: PLC0415
        ApplyMoEActivationConfig,
        MoEActivation,
    )

    bounds = ApplyMoEActivationConfig(
        activation_situ_beta=dims.situ_beta, activation_situ_linear_beta=dims.situ_linear_beta
    )
    return {"activation": MoEActivation.SITU, "activation_config": bounds}


def _workspace(dims: K3Dims, latent: Tensor, slots: int) -> dict[str, Tensor]:
    """Memory taken ahead, as the engine does: a launch that allocates is no fair comparison."""
    from vllm.model_executor.layers.quantization.utils.marlin_utils import (  # noqa: PLC0415
        marlin_make_workspace_new,
    )

    inner = dims.expert_intermediate_size
    return {
        "workspace": marlin_make_workspace_new(latent.device, _BLOCKS_PER_SM),
        "intermediate_cache13": latent.new_empty(slots * max(2 * inner, dims.latent_size)),
        "intermediate_cache2": latent.new_empty(slots, inner),
        "output": torch.empty_like(latent),
    }


def _add_slots(slots: Tensor, out: Tensor, _experts: Tensor, _map: Tensor | None) -> None:
    from vllm import _custom_ops  # noqa: PLC0415

    _custom_ops.moe_sum(slots, out)
