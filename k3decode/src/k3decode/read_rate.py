"""How long a GPU takes only to read so many bytes, measured beside a kernel that must read them."""

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from k3decode.device.stream_read import StreamReadConfig, StreamReadKernel
from k3decode.host.compilation import compile_kernel, current_stream, device_pointer, placeholders
from k3decode.host.inputs import ARCHITECTURES

__all__ = ["ReadRate", "compile_read"]

_CONFIG = StreamReadConfig()
_VECTOR_BYTES = 16
# Ten times the largest L2 cache that we know on Hopper.
_FAR_ABOVE_CACHE = 600_000_000


class ReadRate:
    """A buffer much larger than the L2 cache, read in pieces; one piece is read once per replay."""

    def __init__(
        self,
        device: torch.device,
        replay_us: Callable[[list[Callable[[], None]]], list[float]],
        *,
        buffer_bytes: int,
    ) -> None:
        """Take the buffer.

        Args:
            device: the GPU.
            replay_us: times of replays of a graph with these launches, microseconds each.
            buffer_bytes: its size.
        """
        self._buffer = torch.ones(buffer_bytes, dtype=torch.uint8, device=device)
        self._sink = torch.zeros(1, dtype=torch.int32, device=device)
        self._replay_us = replay_us
        self._ctas = (
            _CONFIG.ctas_per_sm * torch.cuda.get_device_properties(device).multi_processor_count
        )
        self._compiled = compile_read(ARCHITECTURES[torch.cuda.get_device_capability(device)])

    def read_us(self, size: int, copies: int) -> float:
        """Median time of one cold read of `size` bytes, `copies` in a graph.

        More than the buffer is read at the buffer's rate.

        Raises:
            ValueError: the buffer does not hold two such pieces, and one is not so large that
                reading it drives its own beginning out of the cache.
        """
        piece = -(-size // _VECTOR_BYTES) * _VECTOR_BYTES
        whole = self._buffer.numel() // _VECTOR_BYTES * _VECTOR_BYTES
        if piece > whole:
            return float(self.read_us(whole, copies) * size / whole)
        pieces: int = min(copies, whole // piece)
        if pieces < 2 and piece < _FAR_ABOVE_CACHE:  # noqa: PLR2004
            raise ValueError(
                f"expected at most {whole // 2} bytes or more than {_FAR_ABOVE_CACHE}, found "
                f"{size}: a piece that was just read may still be in the cache; take a larger "
                "buffer"
            )
        launches = [self._launch(self._buffer[i * piece :][:piece]) for i in range(pieces)]
        median: float = statistics.median(self._replay_us(launches))
        return median / pieces

    def _launch(self, piece: Tensor) -> Callable[[], None]:
        def run() -> None:
            self._compiled(
                device_pointer(piece),
                device_pointer(self._sink),
                piece.numel(),
                self._ctas,
                current_stream(),
            )

        return run


def compile_read(architecture: str) -> Any:
    """Compile the kernel that only reads."""
    arguments = placeholders([torch.uint8, torch.int32], 1, 1)
    return compile_kernel(StreamReadKernel(_CONFIG), arguments, architecture)
