"""What a subject file says, as frozen values. Reading the file is `loading.py`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from k3bundle.subject import ArmSpec

__all__ = ["EngineLaunch", "Subject", "SubjectArm", "SubjectModel"]


@dataclass(frozen=True)
class EngineLaunch:
    """How the engine is started, the same for both arms."""

    name: str
    """Engine name, for example `vllm`."""
    launch: tuple[str, ...]
    """Arguments after the engine's Python, up to the model folder."""
    distributions: tuple[str, ...]
    """Distributions that may hold the engine, in order of preference."""
    path_distributions: tuple[str, ...]
    """Distributions that hold the decode path; their files are checked too."""
    arguments: tuple[str, ...]
    """Arguments after the model folder, before those of the arm."""
    environment: Mapping[str, str]
    """Environment variables for both arms."""
    volatile_config_keys: tuple[str, ...]
    """Glob patterns of effective configuration keys that differ between equal boots."""
    coverage_method: str
    """Worker method that returns the step counts as JSON text."""


@dataclass(frozen=True)
class SubjectModel:
    """The model that both arms serve."""

    name: str
    """Name that requests use."""
    revision: str
    """Pinned revision, or how it was generated."""
    random_weights: bool
    """True when accuracy means nothing."""


@dataclass(frozen=True)
class SubjectArm:
    """One arm: its record, and where its source overlay lies on this machine."""

    spec: ArmSpec
    """What goes into the plan."""
    overlay: Path | None
    """Folder put on PYTHONPATH for this arm only; its digest is in `spec`."""


@dataclass(frozen=True)
class Subject:
    """A complete subject definition."""

    name: str
    """Name, for example `k3-tiny`."""
    engine: EngineLaunch
    """How to start the engine."""
    model: SubjectModel
    """What it serves."""
    arms: tuple[SubjectArm, ...]
    """Baseline, then candidate."""
    allowed_config_differences: tuple[str, ...]
    """Effective configuration keys in which the arms may differ."""
