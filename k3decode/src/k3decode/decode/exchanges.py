"""Memory by which one rank's step meets its peers: mailboxes, and rows that it brings itself.

A step has four kinds of exchanges: the sum of attention outputs, and in MoE layers the gather in
front of the experts, the sum behind them and the gather of outputs; a dense layer's output is
summed. Each layer has places of its own, so a place is used once in a step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from k3decode.comm.mailbox import Mailbox, decode_error
from k3decode.comm.stand_in import StandInPeers
from k3decode.dims import K3Dims

__all__ = ["RankExchanges", "allocate_exchanges"]

_SUM_SCALE = 0.02


class _Peers(Protocol):
    """Where the words of one mailbox come from."""

    mailbox: Mailbox

    def bring(self, numbers: Sequence[int], rows: int) -> None:
        """Bring rows to places, if peers are on this device; else nothing."""


@dataclass(frozen=True)
class RankExchanges:
    """What one rank's launches take beside the step's buffers; rows of the largest step."""

    rank: int
    ranks: int
    dense_layers: int
    """Leading layers without MoE."""
    attention: _Peers
    """Partial outputs of attention, summed."""
    dense: _Peers
    """Partial outputs of dense layers, summed."""
    front: _Peers
    """Logits, latent row and activation of the shared expert, gathered."""
    latent: _Peers
    """Partial sums over experts, summed."""
    output: _Peers
    """Columns of MoE outputs, gathered."""
    error: Tensor
    own_logits: Tensor
    """FP32 [M, E / N]"""
    own_front: Tensor
    """Columns of the latent row, then of the activation, [M, L / N + S]."""
    own_output: Tensor
    """Columns of an MoE output, [M, D / N]."""
    gathered: Tensor
    """Latent row and activation of all ranks, [M, L + N S]."""

    def bring(self, depth: int, rows: int) -> None:
        """Let peers on this device bring what a step through so many layers waits for."""
        dense = min(depth, self.dense_layers)
        self.attention.bring(range(depth), rows)
        self.dense.bring(range(1, dense + 1), rows)
        self.front.bring(range(dense, depth), rows)
        self.latent.bring(range(dense, depth), rows)
        self.output.bring(range(dense + 1, depth + 1), rows)

    def check(self) -> None:
        """Raise if a step was given up.

        Raises:
            ExchangeFailedError: it names what was waited for.
        """
        decode_error(self.error)

    def reset(self) -> None:
        """Forget a step that was given up; no rank may be inside a step."""
        for peers in (self.attention, self.dense, self.front, self.latent, self.output):
            peers.mailbox.reset()


def allocate_exchanges(  # noqa: PLR0917
    dims: K3Dims, layers: int, rows: int, rank: int, ranks: int, device: torch.device, seed: int
) -> RankExchanges:
    """Take the memory, with stand-ins on the same device for the peers.

    Args:
        dims: widths of the rank.
        layers: of the deepest step.
        rows: of the largest step.
        rank: this one.
        ranks: how many there are.
        device: where.
        seed: of what the peers bring.
    """
    hidden, latent, experts = dims.hidden_size, dims.latent_size, dims.num_experts
    shared = dims.shared_intermediate_size
    generator = torch.Generator(device).manual_seed(seed)
    error = torch.zeros(1, dtype=torch.int64, device=device)
    bf16 = torch.bfloat16

    def content(slots: int, columns: int, scale: float) -> Tensor:
        shape = (slots, rows, columns)
        return scale * torch.randn(*shape, generator=generator, device=device)

    def peers(slots: int, brought: Tensor) -> StandInPeers:
        columns = int(brought.shape[-1]) * brought.element_size() // 2
        mailbox = Mailbox.allocate(
            places=layers + 1, slots=slots, rows=rows, columns=columns, rank=rank, error=error
        )
        return StandInPeers(mailbox, ranks, brought)

    logits = content(1, experts, 2.0).view(bf16)
    columns = content(1, latent + shared * ranks, 1.0).to(bf16)
    return RankExchanges(
        rank=rank,
        ranks=ranks,
        dense_layers=dims.num_dense_layers,
        attention=peers(ranks, content(ranks, hidden, _SUM_SCALE).to(bf16)),
        dense=peers(ranks, content(ranks, hidden, _SUM_SCALE).to(bf16)),
        front=peers(1, torch.cat([logits, columns], dim=-1)),
        latent=peers(ranks, content(ranks, latent, _SUM_SCALE).to(bf16)),
        output=peers(1, content(1, hidden, 1.0).to(bf16)),
        error=error,
        own_logits=torch.zeros(rows, experts // ranks, device=device),
        own_front=torch.zeros(rows, latent // ranks + shared, dtype=bf16, device=device),
        own_output=torch.zeros(rows, hidden // ranks, dtype=bf16, device=device),
        gathered=torch.zeros(rows, latent + ranks * shared, dtype=bf16, device=device),
    )
