"""Compile-time choices of the routed-expert kernel.

It reads weights in chunks of 32 rows and 64 columns, two MXFP4 groups: two MMA tiles high. The 16
warps of a CTA are one or more teams in the first half, where the warps of a team share the columns
of a tile, and work apart in the second, each on experts of its own.
"""

from dataclasses import dataclass

from k3decode.formats import MXFP4_GROUP
from k3decode.mxfp4_blocks import BLOCK_ROWS, CHUNK_GROUPS

__all__ = ["BODY_CHUNKS", "ExpertsConfig"]

BODY_CHUNKS = 3
"""Chunks of an expert's second matrix that a warp works on with tokens in registers."""

_WARP_SIZE = 32
_WARPS = 16
_MAX_TOP_K = 32
_MAX_EXPERTS = 1024
_CHUNK_COLUMNS = CHUNK_GROUPS * MXFP4_GROUP
# Registers: 32 bytes of activations per chunk and lane.
_MAX_LANE_CHUNKS = 7
_SUMS = 8


@dataclass(frozen=True)
class ExpertsConfig:
    """One compiled kernel."""

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
    teams: int
    """Groups of warps that each take tiles of the first matrix."""
    ring_chunks: int
    """Chunks of weights of a warp that are on their way or in use."""

    def __post_init__(self) -> None:
        if not (1 <= self.top_k <= _MAX_TOP_K and self.top_k <= self.num_experts <= _MAX_EXPERTS):
            raise ValueError(
                f"1 to {_MAX_TOP_K} choices of at most {_MAX_EXPERTS} experts, found {self.top_k} "
                f"of {self.num_experts}: one CTA keeps the experts' tokens in shared memory"
            )
        share = _CHUNK_COLUMNS * self.team_warps
        if self.latent_size % share or not 1 <= self.gate_up_chunks <= _MAX_LANE_CHUNKS:
            raise ValueError(
                f"a latent width of {share} to {share * _MAX_LANE_CHUNKS} columns in steps of "
                f"{share}, found {self.latent_size}: each of {self.team_warps} warps keeps its "
                "columns of a token in registers"
            )
        if self.inner_size < 1 or self.inner_size % (_CHUNK_COLUMNS * BODY_CHUNKS):
            raise ValueError(
                f"an inner width that is a multiple of {_CHUNK_COLUMNS * BODY_CHUNKS}, found "
                f"{self.inner_size}: choose a number of ranks that gives one"
            )

    @property
    def gate_up_tiles(self) -> int:
        """Blocks of 16 gate rows and their 16 up rows in one expert."""
        return 2 * self.inner_size // BLOCK_ROWS

    @property
    def down_tiles(self) -> int:
        """Blocks of 32 output rows in one expert."""
        return self.latent_size // BLOCK_ROWS

    @property
    def gate_up_chunks(self) -> int:
        """Chunks of one warp in a tile of the first matrix."""
        return self.latent_size // _CHUNK_COLUMNS // self.team_warps

    @property
    def down_chunks(self) -> int:
        """Chunks of one tile of the second matrix."""
        return self.inner_size // _CHUNK_COLUMNS

    @property
    def max_slots(self) -> int:
        """Choices of the largest batch."""
        return self.max_rows * self.top_k

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return _WARPS

    @property
    def team_warps(self) -> int:
        """Warps of a team, each with its share of the latent columns."""
        return _WARPS // self.teams

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.warps * _WARP_SIZE

    @property
    def shared_floats(self) -> int:
        """FP32 numbers of one piece of shared memory with three uses, one after the other.

        Who chose whom, while slots are grouped; the sums of the warps of both teams, of two tiles;
        the outputs of every slot.
        """
        grouping = 3 * self.num_experts
        sums = 2 * self.warps * _SUMS * _WARP_SIZE
        return max(grouping, sums, self.max_slots * BLOCK_ROWS)
