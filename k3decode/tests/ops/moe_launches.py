"""Plain-torch stand-ins with the launches of the MoE ops, as in torch_launches.

The experts' one reads the packed bytes, through the inverse of the packing.
"""

import torch
from torch import Tensor

from k3decode.formats import unpack_mxfp4
from k3decode.ops.dense_mlp.reference import situ
from k3decode.ops.experts.config import ExpertsConfig
from k3decode.ops.experts.launch import ExpertsWorkspace
from k3decode.ops.experts.packing import PackedExperts, unpack_down, unpack_gate_up
from k3decode.ops.latent_norm.config import LatentNormConfig
from k3decode.ops.moe_tail.config import MoeTailConfig
from k3decode.ops.rms_norm.reference import rms_norm
from k3decode.ops.situ.config import SituConfig


def run_experts(  # noqa: PLR0917
    latent: Tensor,
    experts: Tensor,
    shares: Tensor,
    packed: PackedExperts,
    workspace: ExpertsWorkspace,
    out: Tensor,
    *,
    config: ExpertsConfig,
) -> None:
    inner = workspace.inner
    total = torch.zeros(out.shape)
    position = 0
    for expert in range(config.num_experts):
        rows, places = torch.where(experts == expert)
        if not len(rows):
            continue
        w1, w3 = unpack_mxfp4(*unpack_gate_up(packed, expert)).chunk(2)
        w2 = unpack_mxfp4(*unpack_down(packed, expert))
        taken = latent[rows].float()
        active = situ(taken @ w1.T, taken @ w3.T, config.situ_beta, config.situ_linear_beta)
        inner[position : position + len(rows)] = active.to(torch.bfloat16)
        kept = inner[position : position + len(rows)].float()
        total[rows] += shares[rows, places][:, None] * (kept @ w2.T)
        position += len(rows)
    out.copy_(total)


def activate_rows(gate_up: Tensor, out: Tensor, *, config: SituConfig) -> None:
    gate, up = gate_up.float().chunk(2, dim=-1)
    out.copy_(situ(gate, up, config.beta, config.linear_beta))


def normalise_latent(
    summed: Tensor, weight: Tensor, out: Tensor, *, config: LatentNormConfig
) -> None:
    out.copy_(rms_norm(summed.float(), weight.float(), config.eps))


def add_shared(routed: Tensor, shared: Tensor, out: Tensor, *, config: MoeTailConfig) -> None:
    out.copy_(routed + shared)
