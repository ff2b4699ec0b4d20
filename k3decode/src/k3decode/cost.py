"""What one launch must do at least, and how long that takes on a GPU."""

from dataclasses import dataclass

from k3decode.hardware import Gpu

__all__ = ["Cost", "roofline_us"]


@dataclass(frozen=True)
class Cost:
    """Counts for one case: what it touches, not what its buffers could hold."""

    flops: int
    """Floating-point operations in BF16 or FP32, a multiply-add counted as two."""
    read_bytes: int
    """Bytes read from device memory when every input is read once."""
    write_bytes: int
    """Bytes written to device memory when every output is written once."""

    def __post_init__(self) -> None:
        if min(self.flops, self.read_bytes, self.write_bytes) < 0:
            raise ValueError(f"counts cannot be negative, found {self}")

    def __add__(self, other: "Cost") -> "Cost":
        """Cost of doing both."""
        return Cost(
            flops=self.flops + other.flops,
            read_bytes=self.read_bytes + other.read_bytes,
            write_bytes=self.write_bytes + other.write_bytes,
        )

    @property
    def bytes(self) -> int:
        """Bytes moved, read and written."""
        return self.read_bytes + self.write_bytes


def roofline_us(cost: Cost, gpu: Gpu) -> float:
    """Shortest possible time in microseconds: the longer of moving bytes and of BF16 arithmetic."""
    moving = cost.bytes / (gpu.memory_gb_per_s * 1e9)
    computing = cost.flops / (gpu.bf16_tflop_per_s * 1e12)
    return 1e6 * max(moving, computing)
