"""Compile-time choices of the kernel that combines partial attention of many rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    # The op imports this module.
    from k3decode.ops.mla_combine.config import MlaCombineConfig

__all__ = ["MlaCombineManyConfig", "many_config_for", "many_form"]

# Fewer rows leave too many multiprocessors without work, and have more partials each.
_FEWEST_ROWS = 17
_WARP_SIZE = 32
_TILE_COLUMNS = 8
_FP32_QUAD = 4
_BF16_BYTES = 2
# Rows of a matrix in shared memory start 16 bytes apart modulo 128.
_PADDING = 8


@dataclass(frozen=True)
class MlaCombineManyConfig:
    """One compiled variant; it serves every number of heads, rows and partials."""

    source: Literal["parts", "ranks"]
    """As `MlaCombineConfig`'s; what is made are gated values."""
    latent: int
    value: int
    """Columns of a head's value."""
    most_partials: int
    """Partials of a row, at most."""
    warps: int = 8
    """Warps of a CTA; each has rows of its own and then columns of its own."""
    rows: int = 16
    """Rows of a CTA: those of a matrix instruction."""
    ahead: int = 4
    """Partials of each of its rows that a warp requests at a time."""

    def __post_init__(self) -> None:
        if self.value % self.columns or self.latent % (_WARP_SIZE * _FP32_QUAD):
            raise ValueError(
                f"expected values of a multiple of {self.columns} columns and latents of a "
                f"multiple of {_WARP_SIZE * _FP32_QUAD}, found {self.value} and {self.latent}"
            )

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return _WARP_SIZE * self.warps

    @property
    def warp_rows(self) -> int:
        """Rows that one warp combines."""
        return self.rows // self.warps

    @property
    def columns(self) -> int:
        """Columns of the value of a CTA."""
        return _TILE_COLUMNS * self.warps

    @property
    def slices(self) -> int:
        """CTAs that share the columns of a head's value; each combines for itself."""
        return self.value // self.columns

    @property
    def lane_quads(self) -> int:
        """Groups of four latent columns of one lane."""
        return self.latent // (_WARP_SIZE * _FP32_QUAD)

    @property
    def pitch(self) -> int:
        """BF16 values from row to row in shared memory."""
        return self.latent + _PADDING

    @property
    def pitch_bytes(self) -> int:
        """The same in bytes."""
        return self.pitch * _BF16_BYTES


def many_config_for(config: "MlaCombineConfig", rows: int) -> MlaCombineManyConfig | None:
    """What the rule takes for so many rows in place of a variant; None for the variant itself."""
    return None if rows < _FEWEST_ROWS else many_form(config)


def many_form(config: "MlaCombineConfig") -> MlaCombineManyConfig | None:
    """What gives the same as a variant for any number of rows; None where there is no such form."""
    if config.output != "values":
        return None
    return MlaCombineManyConfig(
        source=config.source,
        latent=config.latent,
        value=config.value,
        most_partials=config.most_partials,
    )
