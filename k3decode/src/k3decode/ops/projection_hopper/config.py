"""Compile-time choices of the wide projection kernel, and which weights it is for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The op imports this module.
    from k3decode.ops.projection.config import SituBounds

__all__ = ["TILE_ROWS", "UNIT_COLUMNS", "WideConfig", "wide_config_for", "wide_for_any_rows"]

TILE_ROWS = 64
"""Weight rows of a CTA: those of one warpgroup product."""

UNIT_COLUMNS = 64
"""Columns of a stage: 128 bytes, the widest swizzle."""

_BF16_BYTES = 2
_FP32_BYTES = 4
_SHARED_BYTES = 227 * 1024 - 4096
_MAX_STAGES = 14
_OUTPUT_PADDING = 4
# Fewer rows leave too many multiprocessors without work; more do not fit in one wave of clusters.
_ROWS = (3000, 7424)
# From so many rows on it takes waves enough, at more than 32 tokens 81 instead of 98 us.
_MANY_ROWS = 16384
_FEW_TOKENS = 32
# Below, activations that every CTA reads for itself cost little. A K3 layer of nine rows gains 3 %
# by the wide form, one of 32 rows 5 %.
_FEWEST_TOKENS = 9
# The matrix unit cuts off where it should round. Outputs in BF16 do not show that; FP32 outputs of
# 7168 columns in one chain were up to twice as far off as is allowed.
_FP32_CHAIN_UNITS = 8
_ONE_CHAIN = 1 << 20


@dataclass(frozen=True)
class WideConfig:
    """One compiled variant; it serves any number of weight rows and columns."""

    tokens: int
    """Activation rows it has room for: 32 or 64."""
    cluster: int = 4
    """CTAs with rows of their own that bring each other's activations."""
    chain_units: int = _ONE_CHAIN
    """Units whose products the matrix unit adds up before they are added to the sums."""
    situ: "SituBounds | None" = None
    """Set where weight rows, or the last of them, alternate between gate and up."""

    def __post_init__(self) -> None:
        if self.tokens % 8 or not 0 < self.tokens <= 64 or self.tokens % (8 * self.cluster):  # noqa: PLR2004
            raise ValueError(
                f"room for up to 64 tokens in a multiple of eight for each of {self.cluster} CTAs, "
                f"found {self.tokens}: eight rows are the smallest share of a swizzled tile"
            )

    @property
    def name(self) -> str:
        """What tells variants apart, in a word."""
        chain = f"_chain{self.chain_units}" if self.chain_units < _ONE_CHAIN else ""
        situ = "_situ" if self.situ else ""
        return f"wide_m{self.tokens}_cluster{self.cluster}{chain}{situ}"

    @property
    def stage_bytes(self) -> int:
        """Weights and activations of one stage."""
        return (TILE_ROWS + self.tokens) * UNIT_COLUMNS * _BF16_BYTES

    @property
    def stages(self) -> int:
        """Units of columns on their way."""
        return min(_MAX_STAGES, _SHARED_BYTES // self.stage_bytes)

    @property
    def output_pitch(self) -> int:
        """FP32 values from one token to the next where sums are handed to whole rows."""
        return TILE_ROWS + _OUTPUT_PADDING


def wide_config_for(
    rows: int, columns: int, tokens: int, situ: "SituBounds | None", *, fp32_rows: int
) -> WideConfig | None:
    """Variant for a weight [rows, columns] and a number of tokens; None where it does not pay."""
    least, most = _ROWS
    fits = least <= rows <= most or (rows >= _MANY_ROWS and tokens > _FEW_TOKENS)
    # Their chains cost 2 us at 9 and 16 tokens, and save 6 at 48 and 64.
    fewest = _FEW_TOKENS + 1 if fp32_rows else _FEWEST_TOKENS
    if tokens < fewest or not fits or columns % UNIT_COLUMNS:
        return None
    return wide_for_any_rows(tokens, situ, fp32_rows=fp32_rows)


def wide_for_any_rows(tokens: int, situ: "SituBounds | None", *, fp32_rows: int) -> WideConfig:
    """Variant for a number of tokens; it gives right results for every weight."""
    return WideConfig(
        tokens=_FEW_TOKENS if tokens <= _FEW_TOKENS else 64,
        chain_units=_FP32_CHAIN_UNITS if fp32_rows else _ONE_CHAIN,
        situ=situ,
    )
