"""What an application is made of: an adapter for each protocol."""

from dataclasses import dataclass

from k3server.account_ports import Accounts, Issuer, KeyDirectory, Moderation
from k3server.board_ports import Board
from k3server.forge_ports import Outbox
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
    accounts: Accounts
    """API tokens."""
    moderation: Moderation
    """Decisions of operators."""
    outbox: Outbox
    """What the forge is still to be told."""
    board: Board
    """Wanted evidence."""
    keys: KeyDirectory
    """Keys that accounts publish."""
    verifier: Verifier
    """Judges archives."""
    clock: Clock
    """The time of day."""
    issuer: Issuer | None = None
    """Who makes identity tokens for workflows; None: none are taken."""
