"""Other ranks on one device, for cases: they bring their words while a launch waits for them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from k3decode.comm.mailbox import DEADLINE_CYCLES, Mailbox, Place
from k3decode.tolerance import Judgement, judge_bitwise

__all__ = ["Brought", "SimulatedPeers"]

# Up to about 30 us at 1.8 GHz: before, while and after a launch starts.
_PAUSE_CYCLES = 54_000


@dataclass(frozen=True)
class Brought:
    """Words that one rank leaves in the mailboxes of all others."""

    rank: int
    slot: int
    first: int
    """Word of a row at which they begin."""
    words: Tensor
    """int32 [M, n], as they travel."""

    @property
    def columns(self) -> slice:
        """Words of a row that they are."""
        return slice(self.first, self.first + int(self.words.shape[1]))


class SimulatedPeers:
    """All ranks but one, whose launch is looked at."""

    def __init__(
        self,
        brought: Sequence[Brought],
        *,
        slots: int,
        columns: int,
        rank: int,
        ranks: int,
        deadline: int = DEADLINE_CYCLES,
    ) -> None:
        """Say what every rank brings, this one included; it must do so itself.

        Args:
            brought: words of all ranks, on the CPU.
            slots: of the place.
            columns: BF16 columns of a row.
            rank: the one that launches.
            ranks: how many there are.
            deadline: after which the launch gives up, in cycles.
        """
        self.silent: int | None = None
        """A rank that brings nothing; None when all of them do."""
        self._deadline = deadline
        self._brought = tuple(brought)
        self._shape = (slots, int(brought[0].words.shape[0]), columns)
        self._rank, self._ranks = rank, ranks
        self._random = random.Random(rank)  # noqa: S311

    def prepared(self, device: torch.device) -> Place:
        """Take the memory; returns the place of the launch."""
        slots, rows, columns = self._shape
        error = torch.zeros(1, dtype=torch.int64, device=device)
        mailboxes = [
            Mailbox.allocate(
                places=1,
                slots=slots,
                rows=rows,
                columns=columns,
                rank=rank,
                error=error,
                deadline=self._deadline,
            )
            for rank in range(self._ranks)
        ]
        self._memories = [mailbox.words for mailbox in mailboxes]
        self._words = [one.words.to(device) for one in self._brought]
        self._place = mailboxes[self._rank].connected(self._memories).place(7, rows)
        if device.type == "cuda":
            # The first launch of a kernel waits for the device, on which a launch may be waiting.
            self._deliver(lambda: torch.cuda._sleep(1))
            self._place.words.fill_(-1)
        return self._place

    def run(self, launch: Callable[[], None]) -> None:
        """Launch while the others bring their words in any order, after pauses where time runs."""
        if self._place.words.device.type != "cuda":
            self._deliver(lambda: None)
            launch()
            return
        side, main = torch.cuda.Stream(), torch.cuda.current_stream()
        side.wait_stream(main)
        launch()
        capturing = torch.cuda.is_current_stream_capturing()

        def pause() -> None:
            if not capturing:
                torch.cuda._sleep(self._random.randint(0, _PAUSE_CYCLES))

        with torch.cuda.stream(side):
            self._deliver(pause)
        main.wait_stream(side)

    def _deliver(self, pause: Callable[[], None]) -> None:
        absent = {self._rank, self.silent}
        order = [i for i, one in enumerate(self._brought) if one.rank not in absent]
        self._random.shuffle(order)
        for i in order:
            pause()
            one = self._brought[i]
            self._place.words[one.slot][:, one.columns] = self._words[i]

    def judge(self) -> tuple[Judgement, ...]:
        """Judge what was sent, what was freed and what was not touched."""
        found = []
        for rank, memory in enumerate(self._memories):
            expected = torch.full_like(memory, -1, device="cpu")
            for one in self._brought:
                if rank != self._rank == one.rank:
                    expected[0, one.slot][:, one.columns] = one.words
            name = "own mailbox" if rank == self._rank else f"mailbox of rank {rank}"
            found.append(judge_bitwise(name, memory, expected))
        zero = torch.zeros(1, dtype=torch.int64)
        return (*found, judge_bitwise("error word", self._place.error, zero))
