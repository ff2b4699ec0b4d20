"""Exit codes of `k3-registry`, each with its meaning."""

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """What the exit status of `k3-registry` says."""

    CLEAN = 0
    """The command did its job; for `serve`: it was asked to stop and stopped."""
    DAMAGE = 1
    """`verify-store` found an archive that is missing or has other bytes, or `rescan` a secret."""
    USAGE = 2
    """A flag or argument is wrong; nothing was started."""
    ENVIRONMENT = 5
    """The machine lacks something: a free port, a writable folder, disk space."""
    INTERNAL = 70
    """A defect of the registry itself; the message says what to report."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C."""
