"""What a request handler can reach; made once per application."""

from dataclasses import dataclass

from k3server.identification import Identification
from k3server.intake import Intake
from k3server.parts import Parts
from k3server.ports import BundleStore, SubmissionIndex
from k3server.settings import Settings
from k3server.upload_intake import UploadIntake

__all__ = ["Services"]


@dataclass(frozen=True)
class Services:
    """What a request handler can reach."""

    settings: Settings
    """Limits and addresses."""
    parts: Parts
    """The adapters."""
    intake: Intake
    """Receive, verify, store, index."""
    uploads: UploadIntake
    """Archives in parts."""
    identification: Identification
    """Who stands behind a request."""

    @property
    def store(self) -> BundleStore:
        """Archives."""
        return self.parts.store

    @property
    def index(self) -> SubmissionIndex:
        """Submissions and nonces."""
        return self.parts.index
