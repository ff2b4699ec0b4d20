"""What a subject file says, as frozen values. Reading the file is `loading.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from k3bundle.plan import DEFAULT_DEPLOYMENT, Deployment
from k3bundle.subject import ArmSpec
from k3runner.subjects.kernel_package import KernelPackage
from k3runner.subjects.scope import Scope, SubjectDeployment

__all__ = ["DurationGuess", "EngineLaunch", "Subject", "SubjectArm", "SubjectModel"]


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
    coverage_method: str | None
    """Worker method that returns the step counts as JSON text; None when the engine has none and
    its table of graphs is read instead."""
    path_kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Path name -> patterns of kernel names; a graph belongs to the path whose patterns it has."""


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
    """One arm: its record, and where its sources or its unpacked wheel lie on this machine."""

    spec: ArmSpec
    """What goes into the plan."""
    overlay: Path | None
    """Folder put on PYTHONPATH for this arm only; its digest is in `spec`."""


@dataclass(frozen=True)
class DurationGuess:
    """What an estimate of a plan's cost is made from. Nothing is judged by it."""

    load_s: float
    """From start of the engine to its first answer."""
    prefill_tokens_per_s: float
    """Prompt tokens per second of the whole deployment."""
    step_ms: float
    """A decode step of one request."""
    step_ms_per_request: float
    """What each further request adds to a decode step."""


DEFAULT_GUESS = DurationGuess(
    load_s=30.0, prefill_tokens_per_s=1000.0, step_ms=20.0, step_ms_per_request=2.0
)
"""For a subject that gives none: a small model on a CPU."""


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
    """Baseline, then candidate; none where the subject is a kernel package alone."""
    allowed_config_differences: tuple[str, ...]
    """Effective configuration keys in which the arms may differ."""
    deployments: tuple[SubjectDeployment, ...] = (
        SubjectDeployment(spec=Deployment(name=DEFAULT_DEPLOYMENT)),
    )
    """Ways to start both arms, in order of preference."""
    scope: Scope = field(default_factory=Scope)
    """What the subject claims to serve."""
    gates: Mapping[str, object] = field(default_factory=dict)
    """Gates of the tier that the subject sets otherwise."""
    limits: tuple[str, ...] = ()
    """What no run of this subject can show, in sentences."""
    guess: DurationGuess = DEFAULT_GUESS
    """For the estimate of a plan's cost."""
    kernels: KernelPackage | None = None
    """A kernel package that can be asked without an engine; None: the subject has none."""
