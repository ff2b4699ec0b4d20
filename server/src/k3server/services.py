"""What a request handler can reach; made once per application."""

from dataclasses import dataclass

from k3server.intake import Intake
from k3server.ports import BundleStore, Clock, SubmissionIndex
from k3server.settings import Settings

__all__ = ["Services"]


@dataclass(frozen=True)
class Services:
    """The parts of one application."""

    settings: Settings
    """Limits and addresses."""
    store: BundleStore
    """Archives."""
    index: SubmissionIndex
    """Submissions and nonces."""
    clock: Clock
    """The time of day."""
    intake: Intake
    """Receive, verify, store, index."""
