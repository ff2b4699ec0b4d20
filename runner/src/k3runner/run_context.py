"""What every step of a run needs: configuration, plan, journal, progress, and who listens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from k3bundle.plan import Plan
from k3runner.early_scrub import EarlyScrub
from k3runner.events import Event
from k3runner.journal import Journal
from k3runner.load.prompt_file import FilePrompt
from k3runner.prompts import Vocabulary
from k3runner.run_state import RunState
from k3runner.run_watch import RunWatch
from k3runner.settings import RunConfig

__all__ = ["RunContext", "utc_now"]


@dataclass(frozen=True)
class RunContext:
    """One attempt at one run."""

    config: RunConfig
    """Configuration of this attempt."""
    plan: Plan
    """The plan."""
    nonce: str
    """Nonce of the run."""
    folder: Path
    """Run folder."""
    journal: Journal
    """Where records go."""
    state: RunState
    """What is finished."""
    attempt: int
    """Number of this attempt."""
    subject_sha256: str
    """Digest of the subject's facts as this start of the runner read them."""
    commit_sha: str
    """Commit under evaluation."""
    package_version: str
    """Version of the engine or of the kernel package, as it is installed."""
    model: str
    """Served model name."""
    vocabulary: Vocabulary
    """Token ids for prompts."""
    prompt_files: Mapping[str, tuple[FilePrompt, ...]]
    """Digest of a file -> its prompts, for cells that take them from one."""
    places: Mapping[str, str]
    """Path of this machine -> placeholder in records."""
    scrub: EarlyScrub
    """Cleans what is written of others' words."""
    watch: RunWatch
    """What is watched beside the measurement."""
    emit: Callable[[Event], None]
    """Listener."""


def utc_now() -> str:
    """The time as a label, RFC 3339 in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
