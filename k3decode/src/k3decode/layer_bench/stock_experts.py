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
        from vllm import _custom_ops  # noqa: PLC0415
        from vllm.model_executor.layers.fused_moe.activation import (  # noqa: PLC0415
            ApplyMoEActivationConfig,
            MoEActivation,
        )
        from vllm.model_executor.layers.fused_moe.experts.marlin_moe import (  # noqa: PLC0415
            fused_marlin_moe,
        )
        from vllm.scalar_type import scalar_types  # noqa: PLC0415

        gate_up_scales, down_scales = self._scales[number]
        activation = ApplyMoEActivationConfig(
            activation_situ_beta=self._dims.situ_beta,
            activation_situ_linear_beta=self._dims.situ_linear_beta,
        )

        def add(rows: Tensor, out: Tensor, _experts: Tensor, _map: Tensor | None) -> None:
            _custom_ops.moe_sum(rows, out)

        def run() -> None:
            fused_marlin_moe(
                latent,
                self._gate_up[number],
                self._down[number],
                None,
                None,
                gate_up_scales,
                down_scales,
                shares,
                experts,
                scalar_types.float4_e2m1f.id,
                global_num_experts=self._dims.num_experts,
                activation=MoEActivation.SITU,
                activation_config=activation,
                moe_sum=add,
            )

        return run
