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
    plain_rows: int = 0,
) -> None:
    x, w = activation.float(), weight.float()
    plain = w.shape[0] if situ is None else plain_rows
    total = projection(x, w[:plain])
    if situ is not None:
        active = projection_situ(x, w[plain:], situ.beta, situ.linear_beta, torch.bfloat16)
        total = torch.cat([total, active], dim=1)
    first = 0 if fp32_out is None else fp32_out.shape[1]
    if fp32_out is not None:
        fp32_out.copy_(total[:, :first])
    if out is not None:
        out.copy_(total[:, first:])


def project_without_the_last_columns(
    *tensors: Tensor,
    situ: SituBounds | None = None,
    plain_rows: int = 0,
) -> None:
    activation, weight, *outputs = tensors
    kept = activation.clone()
    kept[:, -32:] = 0.0
    project(kept, weight, *outputs, situ=situ, plain_rows=plain_rows)


def project_with_rows_in_bf16(
    activation: Tensor,
    weight: Tensor,
    out: Tensor | None,
    fp32_out: Tensor | None = None,
    *,
    situ: SituBounds | None = None,
    plain_rows: int = 0,
) -> None:
    project(activation, weight, out, fp32_out, situ=situ, plain_rows=plain_rows)
    if fp32_out is not None:
        fp32_out.copy_(fp32_out.to(torch.bfloat16))
