"""Compile-time choices of the projection kernel: what one CTA computes, and how it streams."""

from dataclasses import dataclass

__all__ = [
    "ACTIVATION_BUFFERS",
    "BLOCK_ROWS",
    "COLUMN_MULTIPLE",
    "PART_COLUMNS",
    "ProjectionConfig",
    "SituBounds",
]

BLOCK_ROWS = 16
"""Weight rows of one matrix instruction; the smallest share of a warp."""

PART_COLUMNS = 32
"""Weight columns that the lanes of a warp read side by side: two matrix instructions."""

ACTIVATION_BUFFERS = 2
"""Buffers that activations alternate between: one arrives while the other is used."""

COLUMN_MULTIPLE = 64
"""Every weight has a multiple of this many columns: a line of the L2 cache of each row."""

_WARP_SIZE = 32
_MAX_WARPS = 32
_MAX_CLUSTER = 8
_BF16_BYTES = 2
_FP32_BYTES = 4
# Kept out of the way of bank conflicts: neighbouring tokens start 64 bytes apart modulo 128.
_TOKEN_PADDING_BYTES = 64
# Neighbouring tokens of a partial sum start 4 banks apart modulo 16.
_PARTIAL_PADDING = 4
# What a CTA may allocate on the GPUs we know, less what barriers take.
_SHARED_BYTES = 227 * 1024 - 1024


@dataclass(frozen=True)
class SituBounds:
    """Bounds of the activation SiTU."""

    beta: float
    """Bound of the gate factor."""
    linear_beta: float
    """Bound of the linear factor."""


@dataclass(frozen=True)
class ProjectionConfig:
    """One compiled variant; it serves any number of weight rows and columns."""

    tokens: int
    """Activation rows it has room for.

    1 or 2 for FP32 multiply-adds, a multiple of 8 for matrix instructions."""
    blocks: int
    """Blocks of 16 weight rows that one warp accumulates."""
    warps_n: int
    """Warps of a CTA with rows of their own."""
    warps_k: int
    """Warps of a CTA that share rows and take turns along the columns."""
    stages: int
    """Units of columns in each warp's ring."""
    split: int
    """CTAs of a cluster that share rows and split the columns."""
    phase_units: int
    """Units of columns whose activations are in shared memory at a time, per buffer."""
    unit_columns: int = 64
    """Columns of a unit: 64, one 128-byte line of the L2 cache per weight row, or 32."""
    situ: SituBounds | None = None
    """Set where weight rows alternate between gate and up, and the output is SiTU of each pair."""
    activation_rows: int | None = None
    """Activation rows that are kept, where fewer come than a matrix instruction takes; None for
    `tokens`. Results of the others, which are read from the last one, are not used."""
    ahead: int | None = None
    """Units of each warp that are on their way at a time before activations come; None for all.

    Fewer do not keep small launches in front waiting for memory."""
    adds_phases: bool = False
    """Whether each phase has sums of its own that are added up with rounding.

    A matrix instruction cuts off instead, always towards zero, which long chains of them show."""

    def __post_init__(self) -> None:
        if self.tokens > 2 and self.tokens % 8:  # noqa: PLR2004
            raise ValueError(
                f"room for 1, 2 or a multiple of 8 tokens, found {self.tokens}: "
                "a matrix instruction takes 8"
            )
        if self.activation_rows is not None and not (
            self.uses_tensor_cores and 1 <= self.activation_rows < self.tokens
        ):
            raise ValueError(
                f"fewer activation rows than the {self.tokens} of matrix instructions, found "
                f"{self.activation_rows}: None keeps all"
            )
        if not 1 <= self.warps <= _MAX_WARPS or not 1 <= self.split <= _MAX_CLUSTER:
            raise ValueError(
                f"1 to 32 warps and clusters of 1 to 8, found {self.warps} and {self.split}"
            )
        if self.unit_columns not in {PART_COLUMNS, COLUMN_MULTIPLE}:
            raise ValueError(
                f"units of {PART_COLUMNS} or {COLUMN_MULTIPLE} columns, found {self.unit_columns}: "
                "what divides every weight"
            )
        if self.ahead is not None and not 1 <= self.ahead < self.stages - 1:
            raise ValueError(
                f"1 to {self.stages - 2} units on their way before activations come, found "
                f"{self.ahead}: None for all of a ring"
            )
        if self.stages < 2 or self.phase_units % self.warps_k:  # noqa: PLR2004
            raise ValueError(
                f"two stages or more, and phases in which each of {self.warps_k} warps has the "
                f"same number of units, found {self.stages} and {self.phase_units}"
            )
        if self.shared_bytes > _SHARED_BYTES:
            raise ValueError(
                f"at most {_SHARED_BYTES} bytes of shared memory, found {self.shared_bytes}: "
                "fewer stages or shorter phases"
            )

    @property
    def name(self) -> str:
        """What tells variants apart, in a word."""
        tile = f"{self.blocks}x{self.warps_n}x{self.warps_k}"
        ring = f"{self.stages}x{self.unit_columns}"
        rows = "" if self.activation_rows is None else f"{self.activation_rows}of"
        ring += "" if self.ahead is None else f"ahead{self.ahead}"
        end = ("_phases" if self.adds_phases else "") + ("" if self.situ is None else "_situ")
        split = f"phase{self.phase_units}_split{self.split}"
        return f"m{rows}{self.tokens}_{tile}_ring{ring}_{split}{end}"

    @property
    def warps(self) -> int:
        """Warps of a CTA."""
        return self.warps_n * self.warps_k

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.warps * _WARP_SIZE

    @property
    def uses_tensor_cores(self) -> bool:
        """Whether products are matrix instructions; else FP32 multiply-adds."""
        return self.tokens > 2  # noqa: PLR2004

    @property
    def token_tiles(self) -> int:
        """Groups of 8 tokens."""
        return -(-self.tokens // 8)

    @property
    def kept_rows(self) -> int:
        """Activation rows in a buffer."""
        return self.activation_rows or self.tokens

    @property
    def tile_rows(self) -> int:
        """Weight rows of a CTA."""
        return BLOCK_ROWS * self.blocks * self.warps_n

    @property
    def unit_parts(self) -> int:
        """Groups of 32 columns in a unit."""
        return self.unit_columns // PART_COLUMNS

    @property
    def ring_columns(self) -> int:
        """Columns of each row of a CTA that are requested before activations are waited for."""
        return (self.stages - 1) * self.warps_k * self.unit_columns

    @property
    def ring_bytes(self) -> int:
        """Shared memory of all rings."""
        unit = BLOCK_ROWS * self.unit_columns * _BF16_BYTES
        return self.warps * self.stages * self.blocks * unit

    @property
    def token_pitch(self) -> int:
        """BF16 values from one token to the next in an activation buffer."""
        return self.phase_units * self.unit_columns + _TOKEN_PADDING_BYTES // _BF16_BYTES

    @property
    def partial_pitch(self) -> int:
        """FP32 values from one token to the next in a partial sum."""
        return self.tile_rows + _PARTIAL_PADDING

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a CTA without barriers; partial sums reuse rings and activations."""
        activations = ACTIVATION_BUFFERS * self.kept_rows * self.token_pitch * _BF16_BYTES
        partials = self.warps_k * self.tokens * self.partial_pitch * _FP32_BYTES
        return max(self.ring_bytes + activations, partials)
