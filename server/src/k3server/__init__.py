"""The registry: receive, verify, store, index, show."""

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.1.0"
