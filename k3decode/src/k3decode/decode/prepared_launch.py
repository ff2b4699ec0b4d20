"""One launch with everything that it takes."""

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["PreparedLaunch"]


@dataclass(frozen=True)
class PreparedLaunch:
    """One call with all its arguments."""

    name: str
    """Op and what it is for."""
    run: Callable[[], None]
    kernels: int = 1
    """Kernels that it launches."""
