"""Reference of the short causal depthwise convolution with SiLU, one step and whole sequence.

The stored taps are the last raw inputs, oldest first; the last weight multiplies the newest input.
The two forms are written apart and tested against each other.
"""

import torch
from torch import Tensor

__all__ = ["short_conv_sequence", "short_conv_step"]


def short_conv_step(x: Tensor, taps: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Convolve one new row.

    Args:
        x: new raw row, [B, C].
        taps: the W - 1 rows before it, oldest first, [B, W - 1, C].
        weight: [C, W], fp32.

    Returns:
        Activated row [B, C] and the taps for the next step [B, W - 1, C].
    """
    window = torch.cat([taps, x[:, None, :]], dim=1)
    mixed = (window * weight.T).sum(dim=1)
    return mixed * torch.sigmoid(mixed), window[:, 1:, :]


def short_conv_sequence(x: Tensor, taps: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Convolve a whole sequence at once.

    Args:
        x: raw rows, oldest first, [B, T, C].
        taps: the W - 1 rows before them, oldest first, [B, W - 1, C].
        weight: [C, W], fp32.

    Returns:
        Activated rows [B, T, C] and the taps after the last row [B, W - 1, C].
    """
    if x.shape[1] == 0:
        return x, taps
    channels = weight.shape[0]
    history = torch.cat([taps, x], dim=1).transpose(1, 2)
    mixed = torch.nn.functional.conv1d(history, weight[:, None, :], groups=channels)
    activated = torch.nn.functional.silu(mixed).transpose(1, 2)
    return activated, history[:, :, x.shape[1] :].transpose(1, 2)
