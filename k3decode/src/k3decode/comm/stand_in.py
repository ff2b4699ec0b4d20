"""Peers of a rank on its own device, for timing: what they bring does not depend on the step.

A helper kernel brings the words of all exchanges of a step when it begins, beside the step's own
kernels; they wait for them and free their places as in a deployment. What this rank sends lands in
memory of the same device, one place for each peer. So the time has the copies, the waiting and the
sums in it, and no link: neither its latency nor its bandwidth.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from k3decode.comm.mailbox import Mailbox
from k3decode.comm.reference import sendable

__all__ = ["StandInPeers"]


class StandInPeers:
    """What the other ranks bring to one mailbox, and where this rank's words go."""

    def __init__(self, mailbox: Mailbox, ranks: int, content: Tensor) -> None:
        """Take memory for what is sent and for what is brought.

        Args:
            mailbox: of the rank, without peers.
            ranks: how many there are.
            content: rows that peers bring to a place, BF16 or FP32 [slots, M, columns].
        """
        sinks = [torch.empty_like(mailbox.words[:1]) for _ in range(ranks)]
        sinks[mailbox.rank] = mailbox.words
        self.mailbox = mailbox.connected(sinks)
        # Words twice as wide, so that the copy has fewer of them.
        self._content = sendable(content).view(torch.int64)

    def bring(self, numbers: Sequence[int], rows: int) -> None:
        """Bring rows to the places of some exchanges, which follow each other."""
        if not numbers:
            return
        words = self.mailbox.words[numbers[0] : numbers[-1] + 1, :, :rows].view(torch.int64)
        words.copy_(self._content[None, :, :rows].expand_as(words))
