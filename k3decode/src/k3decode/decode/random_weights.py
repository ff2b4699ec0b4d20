"""Weights that come from a seed instead of a checkpoint, for checks and for timing.

Every layer has its own. Sizes are such that rows keep an ordinary scale through many layers: their
distribution is no trained model's, their bytes are as many.
"""

import torch
from torch import Tensor

from k3decode.decode.layer_weights import ModelEnds
from k3decode.decode.packing import ExpertBytes, reading_point
from k3decode.dims import K3Dims
from k3decode.formats import MXFP4_GROUP
from k3decode.model.parameters import Shape, parameter_shapes

__all__ = ["random_ends", "random_layer"]

_MATRIX_SCALE = 0.02
_ROUTED = "block_sparse_moe.experts."
# Scale bytes 119 and 120: weights of about 0.01 to 0.05.
_SCALES = (119, 121)
_KEPT_IN_FP32 = ("A_log", "dt_bias", "conv1d.weight", "o_norm.weight", "e_score_correction_bias")


def random_layer(
    dims: K3Dims, number: int, seed: int, device: torch.device
) -> tuple[dict[str, Tensor], ExpertBytes | None]:
    """Tensors of one layer, as `packing.pack_layer` takes them.

    Args:
        dims: widths.
        number: 0-based layer number, which decides about the kind of layer.
        seed: equal seeds and numbers give equal weights on the same kind of device.
        device: where they are made.
    """
    generator = torch.Generator(device).manual_seed(1000 * seed + number)
    prefix = f"model.layers.{number}."
    tensors = {
        name.removeprefix(prefix): _drawn(name, shape, generator)
        for name, shape in parameter_shapes(dims).items()
        if name.startswith(prefix) and _ROUTED not in name
    }
    if dims.is_dense(number):
        return tensors, None
    experts, latent, inner = dims.num_experts, dims.latent_size, dims.expert_intermediate_size

    def draw(low: int, high: int, *size: int) -> Tensor:
        return torch.randint(low, high, size, dtype=torch.uint8, generator=generator, device=device)

    return tensors, ExpertBytes(
        w13=draw(0, 256, experts, 2 * inner, latent // 2),
        w13_scales=draw(*_SCALES, experts, 2 * inner, latent // MXFP4_GROUP),
        w2=draw(0, 256, experts, latent, inner // 2),
        w2_scales=draw(*_SCALES, experts, latent, inner // MXFP4_GROUP),
    )


def random_ends(dims: K3Dims, seed: int, device: torch.device) -> ModelEnds:
    """Embedding, last AttnRes and LM head."""
    generator = torch.Generator(device).manual_seed(1000 * seed + 999)
    tensors = {
        name.removeprefix("model."): _drawn(name, shape, generator)
        for name, shape in parameter_shapes(dims).items()
        if ".layers." not in name
    }
    return ModelEnds(
        # Rows of an embedding have the scale of a residual stream.
        embedding=tensors["embed_tokens.weight"] / _MATRIX_SCALE,
        final=reading_point(tensors, "output_attn_res", "norm"),
        lm_head=tensors["lm_head.weight"],
    )


def _drawn(name: str, shape: Shape, generator: torch.Generator) -> Tensor:
    values = torch.randn(*shape, generator=generator, device=generator.device)
    if name.endswith(("norm.weight", "layernorm.weight")):
        values = 1.0 + 0.1 * values
    elif name.endswith("conv1d.weight"):
        values = 0.3 * values
    elif name.endswith("e_score_correction_bias"):
        values = 0.02 * values
    elif not name.endswith(("A_log", "dt_bias")):
        values = _MATRIX_SCALE * values
    return values if name.endswith(_KEPT_IN_FP32) else values.to(torch.bfloat16)
