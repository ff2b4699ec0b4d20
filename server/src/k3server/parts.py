"""What an application is made of: an adapter for each protocol."""

from dataclasses import dataclass

from k3server.ports import BlobLedger, BundleStore, Clock, SubmissionIndex, Verifier

__all__ = ["Parts"]


@dataclass(frozen=True)
class Parts:
    """What an application is made of: an adapter for each protocol."""

    store: BundleStore
    """Archives."""
    index: SubmissionIndex
    """Submissions and nonces."""
    ledger: BlobLedger
    """Which archives are wanted, and uploads in parts."""
    verifier: Verifier
    """Judges archives."""
    clock: Clock
    """The time of day."""
