"""Reference of combining partial attention, and of making gated values of latents."""

import torch
from torch import Tensor

from k3decode.ops.mla_decode.reference import Attended

__all__ = ["combine", "lift_and_gate"]


def combine(latents: Tensor, lse: Tensor) -> Attended:
    """Combine partials [S, H, L] with logarithms [S, H]; without any token, zeros and -inf.

    A partial whose logarithm is minus infinity counts for nothing, whatever its latents are.
    """
    if latents.shape[0] == 0:
        return Attended(
            latents=latents.new_zeros(latents.shape[1:]),
            lse=lse.new_full(lse.shape[1:], -torch.inf),
        )
    whole = torch.logsumexp(lse, dim=0)
    counted = torch.isfinite(lse)
    weights = torch.where(counted, torch.exp(lse - whole), 0.0)
    summed = torch.zeros_like(latents[0])
    # One after the other: no kernel can be asked for a better order of the sum.
    for weight, used, part in zip(weights, counted, latents, strict=True):
        summed = summed + torch.where(used[:, None], weight[:, None] * part, 0.0)
    return Attended(latents=summed, lse=whole)


def lift_and_gate(latents: Tensor, value_up: Tensor, gate: Tensor, *, rounded: bool) -> Tensor:
    """Gated values [H V] of latents [H, L]; W_UV [H, V, L], gate [H V] before its sigmoid.

    With `rounded`, values are rounded to BF16 before the gate, as the model specifies.
    """
    values = torch.einsum("hl,hvl->hv", latents, value_up).flatten()
    if rounded:
        values = values.to(torch.bfloat16).to(values.dtype)
    return values * torch.sigmoid(gate)
