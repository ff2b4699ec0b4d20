"""Compile-time choices of the exchange before the latent norm."""

from dataclasses import dataclass

from k3decode.ops.latent_norm.config import LatentNormConfig

__all__ = ["ExchangeLatentNormConfig"]

_MAX_RANKS = 16


@dataclass(frozen=True)
class ExchangeLatentNormConfig(LatentNormConfig):
    """One compiled variant."""

    ranks: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.ranks <= _MAX_RANKS:  # noqa: PLR2004
            raise ValueError(
                f"expected 2 to {_MAX_RANKS} ranks, found {self.ranks}: a thread keeps a vector of "
                "each in registers"
            )
