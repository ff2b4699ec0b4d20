"""Compile-time choices of the attention kernels for Hopper."""

from dataclasses import dataclass

from k3decode.ops.mla.cache_format import CacheFormat
from k3decode.ops.mla.latent_row import LatentRow

__all__ = ["MlaDecodeConfig", "MlaDecodeTogetherConfig"]

_PRODUCT_M = 16
_PRODUCT_N = 8
_PRODUCT_K = 16
_COPY_BYTES = 16
_WARP_SIZE = 32
_FEWEST_STAGES = 3
_SCORE_SETS = 2
# A warp reads this many cache rows of 16 bytes in one instruction.
_ROWS_PER_LOAD = {"bf16": 16, "e4m3": 32}
# What a CTA may have on Hopper and Blackwell.
_MAX_SHARED_BYTES = 232_448


@dataclass(frozen=True)
class MlaDecodeConfig(LatentRow):
    """One compiled variant; it serves every number of heads, rows and tokens."""

    cache_format: CacheFormat
    """Format of queries and cache rows."""
    latent: int
    """Columns that are keys and values."""
    shared: int
    """Columns that are keys only."""
    stages: int
    """Tiles of cache rows that one group keeps in shared memory; all but one are on their way."""
    fewest_tiles: int = 2
    """Tiles of a part, at least: short contexts use fewer CTAs and have fewer parts to combine."""
    groups: int = 2
    """Groups of warps that take turns with a CTA's tiles; one waits while the other computes."""
    group_warps: int = 4
    """Warps of a group: each multiplies a quarter of the row with the queries and attends to a
    quarter of the latent columns."""

    def __post_init__(self) -> None:
        if self.width % (self.group_warps * _PRODUCT_K) or self.latent % (self.group_warps * 32):
            raise ValueError(
                f"rows of a multiple of 64 and latents of a multiple of 128 columns, found "
                f"{self.width} and {self.latent}: each of four warps takes a quarter of both"
            )
        if self.threads_per_row * self.tile_tokens != self.group_threads or (
            self.row_bytes % (self.threads_per_row * _COPY_BYTES)
        ):
            raise ValueError(
                f"expected rows that {self.threads_per_row} threads copy evenly, found "
                f"{self.row_bytes} bytes"
            )
        if self.head_block * self.pitch_bytes > self.hand_over_bytes:
            raise ValueError(
                f"expected room for queries where sums are handed over, found "
                f"{self.hand_over_bytes} bytes"
            )
        if self.shared_bytes > _MAX_SHARED_BYTES:
            raise ValueError(
                f"expected at most {_MAX_SHARED_BYTES} bytes of shared memory, found "
                f"{self.shared_bytes}: take fewer stages"
            )

    @property
    def product_format(self) -> str:
        """Operands of the matrix products; FP16 holds every E4M3 value."""
        return "bf16" if self.cache_format == "bf16" else "f16"

    @property
    def head_block(self) -> int:
        """Heads of one CTA; missing ones are zero."""
        return _PRODUCT_M

    @property
    def tile_tokens(self) -> int:
        """Cache rows of a tile."""
        return _ROWS_PER_LOAD[self.cache_format]

    @property
    def step_tokens(self) -> int:
        """Cache rows between two tiles of a group."""
        return self.groups * self.tile_tokens

    @property
    def token_blocks(self) -> int:
        """Products that a tile's tokens fill."""
        return self.tile_tokens // _PRODUCT_N

    @property
    def pitch_bytes(self) -> int:
        """Distance of rows in shared memory; an odd number of 16 bytes, so that eight rows of one
        column lie in different banks.
        """
        return self.row_bytes + _COPY_BYTES

    @property
    def group_threads(self) -> int:
        """Threads of a group."""
        return self.group_warps * _WARP_SIZE

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.groups * self.group_threads

    @property
    def threads_per_row(self) -> int:
        """Threads that copy one cache row."""
        return self.group_threads // self.tile_tokens

    @property
    def copies(self) -> int:
        """Copies of 16 bytes that a thread requests per tile."""
        return self.row_bytes // (self.threads_per_row * _COPY_BYTES)

    @property
    def row_copies(self) -> int:
        """Pieces of 16 bytes of a row."""
        return self.row_bytes // _COPY_BYTES

    @property
    def query_copies(self) -> int:
        """Pieces of a block of queries that a thread brings to shared memory."""
        return -(-self.head_block * self.row_copies // self.threads)

    @property
    def depth_steps(self) -> int:
        """Products along a warp's quarter of the row."""
        return self.width // self.group_warps // _PRODUCT_K

    @property
    def column_blocks(self) -> int:
        """Blocks of 16 latent columns of a warp."""
        return self.latent // self.group_warps // _PRODUCT_K

    @property
    def sums(self) -> int:
        """FP32 sums of latents that a thread keeps."""
        return self.column_blocks * 8

    @property
    def tile_bytes(self) -> int:
        """Shared memory of one tile."""
        return self.tile_tokens * self.pitch_bytes

    @property
    def score_bytes(self) -> int:
        """Shared memory in which the warps of a group exchange scores."""
        return self.group_warps * self.head_block * self.tile_tokens * 4

    @property
    def hand_over_bytes(self) -> int:
        """Shared memory in which one group hands its sums to the other: latents, then maximum and
        sum of two heads per thread.
        """
        return self.group_threads * (self.sums + 4) * 4

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a CTA."""
        per_group = self.stages * self.tile_bytes + self.score_bytes
        return self.groups * per_group + self.hand_over_bytes


@dataclass(frozen=True)
class MlaDecodeTogetherConfig(MlaDecodeConfig):
    """One compiled variant for requests of several rows.

    Every group of warps has 16 of a request's query rows, which are its heads times its rows.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stages < _FEWEST_STAGES:
            raise ValueError(
                f"expected at least {_FEWEST_STAGES} stages, found {self.stages}: a tile is still "
                "multiplied when the next one is asked for"
            )

    @property
    def query_block(self) -> int:
        """Query rows of a CTA."""
        return self.groups * self.head_block

    @property
    def query_copies(self) -> int:
        """Pieces of a group's queries that a thread brings to shared memory."""
        return -(-self.head_block * self.row_copies // self.group_threads)

    @property
    def score_bytes(self) -> int:
        """Shared memory in which the warps of a group exchange scores, of two tiles in turn."""
        return _SCORE_SETS * self.group_warps * self.head_block * self.tile_tokens * 4

    @property
    def hand_over_bytes(self) -> int:
        """Shared memory of the queries of all groups."""
        return self.query_block * self.pitch_bytes
