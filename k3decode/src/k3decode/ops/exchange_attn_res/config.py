"""Compile-time choices of the exchange before AttnRes."""

from dataclasses import dataclass

from k3decode.ops.attn_res.config import VECTOR_WIDTH, AttnResConfig

__all__ = ["ExchangeAttnResConfig"]

_MAX_RANKS = 16


@dataclass(frozen=True)
class ExchangeAttnResConfig(AttnResConfig):
    """One compiled variant: what AttnRes fixes, and from whom its branch output comes."""

    ranks: int = 8
    gathers: bool = False
    """Whether each rank brings columns; else each brings all of them, and they are summed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.ranks <= _MAX_RANKS:  # noqa: PLR2004
            raise ValueError(
                f"expected 2 to {_MAX_RANKS} ranks, found {self.ranks}: a thread keeps a vector of "
                "each in registers"
            )
        if not self.has_pending:
            raise ValueError("an exchange brings a branch output, found a variant without one")
        if self.hidden_size % (self.ranks * VECTOR_WIDTH):
            raise ValueError(
                f"expected ranks that divide {self.hidden_size // VECTOR_WIDTH} vectors, found "
                f"{self.ranks}"
            )

    @property
    def share_vectors(self) -> int:
        """Vectors of a row that one rank brings to a gather."""
        return self.hidden_size // (self.ranks * VECTOR_WIDTH)
