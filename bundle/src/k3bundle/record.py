"""The base of every record, and the annotated scalar types that records are made of.

A record crosses a process or a wire, so it is frozen, knows its exact keys, and holds only finite
numbers. A string under a field is its documentation and reaches the JSON Schema.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

__all__ = [
    "CellId",
    "CommitSha",
    "Count",
    "Fraction",
    "Milliseconds",
    "Nanoseconds",
    "Nats",
    "Record",
    "RepositoryName",
    "Sha256",
    "ShortText",
    "TokensPerSecond",
    "UtcTimestamp",
]

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exactly (IEEE 754 double)."""


class Record(BaseModel):
    """Base of all records: frozen, unknown keys forbidden, strict types, finite floats."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )


Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 digest: 64 lower-case hexadecimal digits, no prefix."""

CommitSha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
"""A full git commit SHA-1: 40 lower-case hexadecimal digits. Short forms are refused."""

RepositoryName = Annotated[
    str,
    StringConstraints(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.-]{1,100}$", max_length=140
    ),
]
"""`owner/name` as GitHub spells it."""

UtcTimestamp = Annotated[
    str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")
]
"""RFC 3339 time in UTC with a final Z. A label only: durations come from monotonic clocks."""

CellId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,79}$")]
"""Name of one cell of a plan, for example `serving-isl64-osl32-c4`."""

ShortText = Annotated[str, StringConstraints(max_length=2000)]
"""A sentence or two for a person. Never interpreted as markup."""

Count = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
"""A non-negative whole number that JSON keeps exactly."""

Nanoseconds = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER)]
"""A duration on a monotonic clock, in nanoseconds."""

Milliseconds = Annotated[float, Field(ge=0)]
"""A duration in milliseconds."""

TokensPerSecond = Annotated[float, Field(ge=0)]
"""A rate in tokens per second."""

Fraction = Annotated[float, Field(ge=0, le=1)]
"""A share between 0 and 1."""

Nats = Annotated[float, Field(ge=0)]
"""A non-negative difference of natural-log probabilities."""
