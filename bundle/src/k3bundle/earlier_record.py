"""Which runs of a plan were started before this one, as far as the referee's machine remembers.

Who runs a plan until it passes has had several chances. A run in a new folder begins anew, so the
runner keeps a ledger outside of all folders, and each bundle carries what it said at the start.
"""

from typing import Literal

from pydantic import Field

from k3bundle.record import Count, Record, ShortText, UtcTimestamp

__all__ = ["EarlierRun", "EarlierRuns"]


class EarlierRun(Record):
    """One run of the same plan for the same commit."""

    run_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    """Its identity."""
    started_at_utc: UtcTimestamp
    """When it was started."""
    verdict: Literal["PASS", "FAIL", "INCONCLUSIVE", "INVALID", "INCOMPLETE"] | None
    """Verdict of its bundle; None: it was never sealed."""


class EarlierRuns(Record):
    """`earlier.json`: what the ledger held when the run was started."""

    schema_version: Literal["1"] = "1"
    """Record format version."""
    why_unknown: ShortText | None
    """Why there is no ledger, in a sentence; None when there is one."""
    runs: tuple[EarlierRun, ...] = Field(max_length=1000)
    """Runs of this plan for this commit, in order."""
    left_out: Count
    """How many more there were."""
    other_plans: Count
    """Runs of other plans for this commit."""
