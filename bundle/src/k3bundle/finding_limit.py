"""Keeps a hostile file from producing a finding for each of a million lines."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from k3bundle.finding import Finding, FindingCode

__all__ = ["MOST_FINDINGS", "at_most"]

MOST_FINDINGS: Final = 50
"""Findings that are listed for one file or one kind of check."""


def at_most(
    findings: Iterable[Finding], *, code: FindingCode, where: str, limit: int = MOST_FINDINGS
) -> list[Finding]:
    """Keep the first findings, and say so when there are more.

    Args:
        findings: Findings, possibly very many; read only as far as needed.
        code: Code of the finding that says that there are more.
        where: Its place.
        limit: How many are kept.

    Returns:
        At most `limit` + 1 findings.
    """
    kept = list(islice(findings, limit + 1))
    if len(kept) <= limit:
        return kept
    why = f"Expected no more than the {limit} problems listed here, found more that are not listed."
    hint = "Correct the listed problems first, then verify again."
    return [*kept[:limit], Finding(code, where, why, hint)]
