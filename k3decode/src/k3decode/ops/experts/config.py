"""Compile-time choices of the routed-expert kernels.

Both kernels read weights in blocks of 32 rows and 32 columns, one MXFP4 group wide: 16 bytes per
lane, two MMA tiles high. A warp takes its blocks in two chunks, so that one chunk is in flight
while the other is used.
"""

from dataclasses import dataclass

from k3decode.formats import MXFP4_GROUP
from k3decode.mxfp4_blocks import BLOCK_ROWS

__all__ = ["ExpertsConfig"]

_WARP_SIZE = 32
_MAX_TOP_K = 32
_MAX_EXPERTS = 1024
# Registers: 16 bytes of weights per block and lane, for two chunks at a time.
_MAX_CHUNK = 8


@dataclass(frozen=True)
class ExpertsConfig:
    """One pair of compiled kernels: gate and up projection, down projection."""

    num_experts: int
    top_k: int
    latent_size: int
    inner_size: int
    """Columns of an expert that this rank has."""
    situ_beta: float
    situ_linear_beta: float
    wide_scales: bool
    """Whether a scale byte above 127 may occur: one more multiplication per pair of weights."""
    max_rows: int
    down_warps: int
    """Warps of a CTA of the second kernel, each with its share of the experts."""
    gate_up_warps: int = 8
    """Warps of a CTA of the first kernel, each with its share of the latent columns."""
    gate_up_ctas_per_sm: int = 2

    def __post_init__(self) -> None:
        if not (1 <= self.top_k <= _MAX_TOP_K and self.top_k <= self.num_experts <= _MAX_EXPERTS):
            raise ValueError(
                f"1 to {_MAX_TOP_K} choices of at most {_MAX_EXPERTS} experts, found {self.top_k} "
                f"of {self.num_experts}: one CTA keeps the experts' tokens in shared memory"
            )
        share = MXFP4_GROUP * 2 * self.gate_up_warps
        if self.latent_size % share or not 1 <= self.gate_up_chunk <= _MAX_CHUNK:
            raise ValueError(
                f"a latent width of {share} to {share * _MAX_CHUNK} columns in steps of {share}, "
                f"found {self.latent_size}: each of {self.gate_up_warps} warps takes two chunks of "
                f"at most {_MAX_CHUNK} groups"
            )
        if self.inner_size % (2 * MXFP4_GROUP) or not 1 <= self.down_chunk <= _MAX_CHUNK:
            raise ValueError(
                f"an inner width of {2 * MXFP4_GROUP} to {2 * MXFP4_GROUP * _MAX_CHUNK} columns in "
                f"steps of {2 * MXFP4_GROUP}, found {self.inner_size}: a warp takes two chunks of "
                f"at most {_MAX_CHUNK} groups; shard the experts over more ranks"
            )

    @property
    def gate_up_tiles(self) -> int:
        """Blocks of 16 gate rows and their 16 up rows in one expert."""
        return 2 * self.inner_size // BLOCK_ROWS

    @property
    def down_tiles(self) -> int:
        """Blocks of 32 output rows in one expert; one CTA each."""
        return self.latent_size // BLOCK_ROWS

    @property
    def gate_up_chunk(self) -> int:
        """Groups of one chunk of a warp of the first kernel."""
        return self.latent_size // MXFP4_GROUP // self.gate_up_warps // 2

    @property
    def down_chunk(self) -> int:
        """Groups of one chunk of a warp of the second kernel."""
        return self.inner_size // MXFP4_GROUP // 2

    @property
    def max_slots(self) -> int:
        """Choices of the largest batch."""
        return self.max_rows * self.top_k

    @property
    def gate_up_threads(self) -> int:
        """Threads of a CTA of the first kernel."""
        return self.gate_up_warps * _WARP_SIZE

    @property
    def down_threads(self) -> int:
        """Threads of a CTA of the second kernel."""
        return self.down_warps * _WARP_SIZE
