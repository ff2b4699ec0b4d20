"""What a serving cell has to show about speed, declared before anything is measured."""

from typing import Annotated, Literal

from pydantic import Field

from k3bundle.record import Record, ShortText

__all__ = ["Excused", "NonInferiority", "SpeedRole", "Superiority"]


class Superiority(Record):
    """The candidate must be faster: the lower bound exceeds the plan's minimum ratio."""

    kind: Literal["superiority"] = "superiority"
    """Tag."""


class NonInferiority(Record):
    """The candidate must not be slower by more than a margin; for cells that nobody speeds up."""

    kind: Literal["non_inferiority"] = "non_inferiority"
    """Tag."""
    margin: float | None = Field(default=None, gt=0, lt=1)
    """Largest share of the baseline's throughput that may be lost; None: the plan's margin."""


class Excused(Record):
    """A supported cell that the subject excuses from being faster. It is measured and shown, and
    while there is one, the claim `faster` is not made.
    """

    kind: Literal["excused"] = "excused"
    """Tag."""
    reason: ShortText = Field(min_length=1)
    """Why, in one sentence."""


SpeedRole = Annotated[Superiority | NonInferiority | Excused, Field(discriminator="kind")]
"""What a cell has to show; `kind` says which."""
