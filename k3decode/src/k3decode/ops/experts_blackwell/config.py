"""Compile-time choices of the routed-expert kernels for Blackwell, and where everything lies.

Weights are the left operand of the matrix products, 128 rows of them, and the tokens of an expert
their columns. Block-scaled products of this chip take both operands in 8, 6 or 4 bits. BF16
activations have eight significant bits and their own exponents, so as such an operand they would be
rounded: another operation than the one that is checked here. Weights become BF16 instead, exactly.
"""

from dataclasses import dataclass

from k3decode.formats import MXFP4_GROUP
from k3decode.mxfp4_blocks import CHUNK_GROUPS, ROW_CHUNK_BYTES, ROW_CHUNK_ROWS

__all__ = ["CHUNK_COLUMNS", "TILE_TOKENS", "ExpertsBlackwellConfig"]

TILE_TOKENS = 16
"""Tokens of one product: the fewest columns that one of 128 rows may have."""

CHUNK_COLUMNS = CHUNK_GROUPS * MXFP4_GROUP
"""Weight columns of a stage of the rings: 128 bytes of a token, one span of the swizzle."""

_WARP_SIZE = 32
_MAX_TOP_K = 32
_MAX_EXPERTS = 1024
_BF16_BYTES = 2
_BITS_PER_COLUMN = 32
_FEWEST_TENSOR_MEMORY_COLUMNS = 32


@dataclass(frozen=True)
class ExpertsBlackwellConfig:
    """Three compiled kernels: gate and up with the activation, down, sum over a row's experts."""

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
    stages: int = 20
    """Chunks of weights and of tokens in shared memory or on their way."""
    groups: int = 2
    """Groups of four warps that take turns with de-quantising chunks."""

    def __post_init__(self) -> None:
        if not (1 <= self.top_k <= _MAX_TOP_K and self.top_k <= self.num_experts <= _MAX_EXPERTS):
            raise ValueError(
                f"1 to {_MAX_TOP_K} choices of at most {_MAX_EXPERTS} experts, found {self.top_k} "
                f"of {self.num_experts}: one CTA keeps the experts' tokens in shared memory"
            )
        if self.latent_size < 1 or self.latent_size % ROW_CHUNK_ROWS:
            raise ValueError(
                f"a latent width that is a multiple of {ROW_CHUNK_ROWS}, found {self.latent_size}"
            )
        if self.inner_size < 1 or self.inner_size % CHUNK_COLUMNS:
            raise ValueError(
                f"an inner width that is a multiple of {CHUNK_COLUMNS}, found {self.inner_size}: "
                "choose a number of ranks that gives one"
            )

    @property
    def gate_up_tiles(self) -> int:
        """Blocks of 64 gate rows and their 64 up rows in one expert."""
        return 2 * self.inner_size // ROW_CHUNK_ROWS

    @property
    def gate_up_chunks(self) -> int:
        """Chunks of such a block."""
        return self.latent_size // CHUNK_COLUMNS

    @property
    def down_tiles(self) -> int:
        """Blocks of 128 output rows in one expert."""
        return self.latent_size // ROW_CHUNK_ROWS

    @property
    def down_chunks(self) -> int:
        """Chunks of such a block."""
        return self.inner_size // CHUNK_COLUMNS

    @property
    def max_slots(self) -> int:
        """Choices of the largest batch."""
        return self.max_rows * self.top_k

    @property
    def token_bytes(self) -> int:
        """Shared memory of one chunk of 16 tokens."""
        return TILE_TOKENS * CHUNK_COLUMNS * _BF16_BYTES

    @property
    def ring_bytes(self) -> int:
        """Shared memory of both rings."""
        return self.stages * (ROW_CHUNK_BYTES + self.token_bytes)

    @property
    def weight_columns(self) -> int:
        """Columns of tensor memory of one chunk: two weights of a row in each."""
        return CHUNK_COLUMNS * 8 * _BF16_BYTES // _BITS_PER_COLUMN

    @property
    def tensor_memory_columns(self) -> int:
        """Columns of tensor memory, a power of two: two sets of sums, a chunk of each group."""
        needed = 2 * TILE_TOKENS + self.groups * self.weight_columns
        return max(1 << (needed - 1).bit_length(), _FEWEST_TENSOR_MEMORY_COLUMNS)

    @property
    def ask_threads(self) -> int:
        """Threads that bring tokens."""
        return 2 * _WARP_SIZE

    @property
    def group_threads(self) -> int:
        """Threads of a group: one for each weight row, and each lane of tensor memory."""
        return ROW_CHUNK_ROWS

    @property
    def threads(self) -> int:
        """Threads of a CTA: a warp copies, one multiplies, two bring tokens, then the groups."""
        return 2 * _WARP_SIZE + self.ask_threads + self.groups * self.group_threads
