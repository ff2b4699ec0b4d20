"""Looks for secrets in archives that were taken before: patterns grow, and a bundle stays."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from k3server.errors import ProblemFinding
from k3server.ports import BundleStore, SubmissionIndex

__all__ = ["RescanReport", "rescan"]

_PAGE: Final = 500


@dataclass(frozen=True)
class RescanReport:
    """What was found in the archive of one submission."""

    bundle_sha256: str
    """The submission."""
    findings: tuple[ProblemFinding, ...]
    """A finding per secret, or the reason why the archive could not be read; empty: nothing."""

    @property
    def has_secrets(self) -> bool:
        """Whether a secret was found, and not only that the archive cannot be read."""
        return any(finding.code == "secret-found" for finding in self.findings)


def rescan(
    store: BundleStore,
    index: SubmissionIndex,
    scan: Callable[[Path], tuple[ProblemFinding, ...]],
) -> Iterator[RescanReport]:
    """Look into the archive of every submission that is shown, the newest first.

    Args:
        store: Archives.
        index: Submissions; quarantined ones are hidden already and are left out.
        scan: Opens one archive and says what is in it.

    Raises:
        StoreUnavailableError: Store or database do not answer.
    """
    before: int | None = None
    while rows := index.every(limit=_PAGE, before=before):
        for row in rows:
            if row.state != "quarantined":
                yield RescanReport(row.bundle_sha256, _look(store, row.blob_sha256, scan))
        before = rows[-1].sequence


def _look(
    store: BundleStore, blob_sha256: str, scan: Callable[[Path], tuple[ProblemFinding, ...]]
) -> tuple[ProblemFinding, ...]:
    try:
        with store.materialise(blob_sha256) as path:
            return scan(path)
    except KeyError:
        missing = ProblemFinding(
            code="archive-missing",
            where="archive",
            why="Expected the archive in the store, found none.",
            hint="Run `k3-registry verify-store`.",
        )
        return (missing,)
