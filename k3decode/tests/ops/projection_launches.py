"""Plain-torch stand-in with the signature of `project`, right and wrong."""

import torch
from torch import Tensor

from k3decode.ops.projection.config import SituBounds
from k3decode.ops.projection.reference import projection, projection_situ


def project(
    activation: Tensor,
    weight: Tensor,
    out: Tensor | None,
    fp32_out: Tensor | None = None,
    *,
    situ: SituBounds | None = None,
) -> None:
    x, w = activation.float(), weight.float()
    if situ is not None:
        assert out is not None
        out.copy_(projection_situ(x, w, situ.beta, situ.linear_beta, torch.bfloat16))
        return
    total = projection(x, w)
    first = 0 if fp32_out is None else fp32_out.shape[1]
    if fp32_out is not None:
        fp32_out.copy_(total[:, :first])
    if out is not None:
        out.copy_(total[:, first:])


def project_without_the_last_columns(*tensors: Tensor, situ: SituBounds | None = None) -> None:
    activation, weight, *outputs = tensors
    kept = activation.clone()
    kept[:, -32:] = 0.0
    project(kept, weight, *outputs, situ=situ)


def project_with_rows_in_bf16(
    activation: Tensor,
    weight: Tensor,
    out: Tensor | None,
    fp32_out: Tensor | None = None,
    *,
    situ: SituBounds | None = None,
) -> None:
    project(activation, weight, out, fp32_out, situ=situ)
    if fp32_out is not None:
        fp32_out.copy_(fp32_out.to(torch.bfloat16))
