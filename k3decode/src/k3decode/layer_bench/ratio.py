"""How much faster one path is than another, from rounds in which both were timed. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Ratio", "Rounds", "ratio_of_rounds"]

# 97.5 % quantiles of Student's distribution by degrees of freedom from 1; R. A. Fisher's table.
_STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


@dataclass(frozen=True)
class Ratio:
    """Time of the other path over time of this path."""

    mean: float
    """Geometric mean over rounds."""
    low: float
    high: float
    """Between them the true ratio lies with a probability of 95 %, by Student's distribution."""


@dataclass(frozen=True)
class Rounds:
    """Microseconds of one path in each round, at two depths."""

    deep: tuple[float, ...]
    shallow: tuple[float, ...]

    def per_layer(self, layers: int) -> tuple[float, ...]:
        """Microseconds of a layer in each round.

        Args:
            layers: how many more the deep stack has.
        """
        return tuple((d - s) / layers for d, s in zip(self.deep, self.shallow, strict=True))


def ratio_of_rounds(other: Sequence[float], this: Sequence[float]) -> Ratio:
    """Ratio of the times of each round; rounds vary, their ratios vary less.

    Args:
        other: times of the other path, one of each round.
        this: times of this path in the same rounds.

    Raises:
        ValueError: fewer than three rounds, or a time that is not positive.
    """
    logs = []
    for o, t in zip(other, this, strict=True):
        if o <= 0 or t <= 0:
            raise ValueError(
                f"expected positive times, found {o} and {t}: a layer is the difference of two "
                "depths, take more replays or depths further apart"
            )
        logs.append(math.log(o / t))
    if not 3 <= len(logs) <= len(_STUDENT) + 1:  # noqa: PLR2004
        raise ValueError(f"expected 3 to {len(_STUDENT) + 1} rounds, found {len(logs)}")
    mean = statistics.fmean(logs)
    half = _STUDENT[len(logs) - 2] * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
