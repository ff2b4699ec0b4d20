"""Runs a plan and seals the evidence; the one entry of everything that measures."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from k3bundle.subject import ChangeUnderTest
from k3bundle.verdict import Verdict
from k3runner.events import Event
from k3runner.settings import RunConfig

__all__ = ["ConfigOverrides", "RunResult", "resume", "run"]


@dataclass(frozen=True)
class RunResult:
    """What a finished run leaves."""

    run_folder: Path
    """Folder with the journal, logs and the bundle."""
    bundle_path: Path
    """The sealed bundle."""
    bundle_sha256: str
    """Digest of the bundle: SHA-256 of its manifest."""
    verdict: Verdict
    """The derived verdict."""


@dataclass(frozen=True)
class ConfigOverrides:
    """What `resume` may change; None keeps what the first attempt used."""

    engine_python: Path | None = None
    """Another path of the same engine environment."""
    model_folder: Path | None = None
    """Another path of the same model."""
    key_path: Path | None = None
    """Another signing key."""
    engine_url: str | None = None
    """Another address of the same existing server."""


def run(config: RunConfig, change: ChangeUnderTest, emit: Callable[[Event], None]) -> RunResult:
    """Runs the plan of `config` from the start and seals a bundle.

    Args:
        config: Fully resolved configuration.
        change: What the evidence is for.
        emit: Called with every event, in order, from the calling thread.

    Raises:
        EngineError: The engine could not be started; the run folder can be resumed.
        MachineError: The machine lacks something.
        RegistryError: The registry that was asked for a nonce did not give one.
        KeyboardInterrupt: Stopped; no engine is left running and the run folder can be resumed.
    """
    raise NotImplementedError


def resume(
    run_folder: Path, overrides: ConfigOverrides, emit: Callable[[Event], None]
) -> RunResult:
    """Finishes an interrupted run: keeps finished cells, boots only what is missing.

    Args:
        run_folder: Folder of the interrupted run.
        overrides: Places that have moved.
        emit: As in `run`.

    Raises:
        UsageError: The folder is not a run, or is already sealed.
        MachineError: Plan, model or engine packages differ from the first attempt's, or another
            runner holds the folder.
        EngineError: As in `run`.
        KeyboardInterrupt: As in `run`.
    """
    raise NotImplementedError
