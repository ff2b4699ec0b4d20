"""Exit codes of `k3-eval`, each with its meaning."""

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """What the exit status of `k3-eval` says."""

    PASS = 0
    """The command did its job; for `run`, `resume` and `verify`: verdict PASS, no finding."""
    FAIL = 1
    """The verdict is FAIL."""
    USAGE = 2
    """A flag or argument is wrong; nothing was started."""
    NOT_CONCLUSIVE = 3
    """The verdict is INCONCLUSIVE, INVALID or INCOMPLETE."""
    REFUSED = 4
    """A bundle or submission was refused; the findings say why."""
    ENVIRONMENT = 5
    """The machine lacks something: a Python, disk space, a port, the network."""
    ENGINE = 6
    """The engine under test could not be started or died."""
    REGISTRY = 7
    """The registry could not be reached or answered with an error; the bundle is kept."""
    INTERNAL = 70
    """A defect of k3-eval itself; the message says what to report."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C; what was finished can be resumed."""
