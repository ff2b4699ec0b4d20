"""Compile-time choices of the routed-expert kernel.

It reads weights in chunks of 32 rows and 64 columns, two MXFP4 groups: two MMA tiles high. The
warps of a CTA are teams of eight in the first half, where the warps of a team share the columns of
a tile, and work apart in the second, each on experts of its own.

An MMA has eight columns. They are eight tokens of an expert; or four, twice, of two groups. The
second way needs half the registers, so a lane has room for chunks that it asks for ahead.
"""

from dataclasses import dataclass

from k3decode.formats import MXFP4_GROUP
from k3decode.mxfp4_blocks import BLOCK_ROWS, CHUNK_GROUPS

__all__ = ["BODY_CHUNKS", "MAX_PASS", "ExpertsConfig"]

BODY_CHUNKS = 3
"""Chunks of an expert's second matrix that a warp works on with tokens in registers."""

MAX_PASS = 8
"""Most tokens of an expert that are multiplied at a time."""

_WARP_SIZE = 32
_TEAM_WARPS = 8
_MAX_TOP_K = 32
_MAX_EXPERTS = 1024
_CHUNK_COLUMNS = CHUNK_GROUPS * MXFP4_GROUP
# Registers: up to 32 bytes of activations per chunk and lane.
_MAX_LANE_CHUNKS = 7
_LEAST_PASS = 4


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
    pass_tokens: int
    """Tokens of an expert that are multiplied at a time: `MAX_PASS`, or half as many."""

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
        if self.pass_tokens not in {_LEAST_PASS, MAX_PASS} or (
            self.wide_scales and self.pass_tokens != MAX_PASS
        ):
            raise ValueError(
                f"{MAX_PASS} tokens of a pass, or {_LEAST_PASS} where scale bytes are at most 127, "
                f"found {self.pass_tokens}: take {MAX_PASS}"
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
    def one_pass(self) -> bool:
        """Whether no expert has more tokens than a pass takes."""
        return self.max_rows <= self.pass_tokens

    @property
    def stages_tokens(self) -> bool:
        """Whether all rows are in shared memory in the first half; else a lane has one token."""
        return self.pass_tokens == _LEAST_PASS

    @property
    def max_slots(self) -> int:
        """Choices of the largest batch."""
        return self.max_rows * self.top_k

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return _TEAM_WARPS * self.teams

    @property
    def team_warps(self) -> int:
        """Warps of a team, each with its share of the latent columns."""
        return _TEAM_WARPS

    @property
    def lane_columns(self) -> int:
        """Tokens whose sums a lane has, and groups of a chunk whose activations it has."""
        return self.pass_tokens // _LEAST_PASS

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
        sums = 2 * self.warps * self.pass_tokens * _WARP_SIZE
        return max(grouping, sums, self.max_slots * BLOCK_ROWS)
