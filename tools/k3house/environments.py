"""The environments: which lock each is made from and which of our packages it holds. Pure."""

from dataclasses import dataclass

__all__ = ["BUILD", "ENVIRONMENTS", "UV", "EngineLock", "Environment", "in_order"]


@dataclass(frozen=True)
class Environment:
    """One environment."""

    name: str
    lock: str
    """File under requirements/, without suffix."""
    packages: tuple[str, ...] = ()
    """Folders of our own packages, installed without their dependencies: the lock has them."""
    editable: bool = False
    """Install our packages as links to their sources instead of as wheels."""
    own_files: bool = False
    """Share no file with the installer's cache; see `install`."""
    engine_python: bool = False
    """The lock is for CPython 3.11 on Linux x86_64 only."""
    needs_bytes: int = 0
    """Free disk space that an installation needs, with the download cache."""


@dataclass(frozen=True)
class EngineLock:
    """Which of two locks an environment with torch is made from, and why."""

    suffix: str
    """Appended to the name of the lock: empty or `-pypi`."""
    reason: str
    extra_bytes: int
    """Disk space over the smaller lock's."""


_MIB = 1 << 20
_OURS = ("bundle", "bundle/testing", "runner", "runner/testing", "server", "k3decode")

UV = Environment("uv", "uv", needs_bytes=200 * _MIB)
BUILD = Environment("build", "build", needs_bytes=50 * _MIB)

ENVIRONMENTS = (
    UV,
    BUILD,
    Environment(
        "engine",
        "engine",
        packages=("tools/engine_shim", "k3decode"),
        engine_python=True,
        needs_bytes=5000 * _MIB,
    ),
    Environment(
        "referee",
        "referee",
        packages=("bundle", "runner"),
        own_files=True,
        needs_bytes=600 * _MIB,
    ),
    Environment(
        "registry",
        "registry",
        packages=("bundle", "server"),
        own_files=True,
        needs_bytes=600 * _MIB,
    ),
    Environment(
        "registry-full",
        "registry-full",
        packages=("bundle", "server"),
        own_files=True,
        needs_bytes=900 * _MIB,
    ),
    Environment("services", "services", needs_bytes=600 * _MIB),
    Environment("probes", "probes", needs_bytes=500 * _MIB),
    Environment(
        "kernels",
        "kernels",
        packages=("k3decode",),
        editable=True,
        engine_python=True,
        needs_bytes=2000 * _MIB,
    ),
    Environment("dev", "dev", packages=_OURS, editable=True, needs_bytes=900 * _MIB),
)
"""All environments, in the order in which they are installed."""


def in_order(names: set[str]) -> tuple[Environment, ...]:
    """The named environments with the two that install them, in order of installation.

    Raises:
        KeyError: a name is unknown.
    """
    known = {environment.name for environment in ENVIRONMENTS}
    if unknown := names - known:
        raise KeyError(", ".join(sorted(unknown)))
    wanted = names | {UV.name, BUILD.name}
    return tuple(environment for environment in ENVIRONMENTS if environment.name in wanted)
