"""The version of the record format, and what each version changed."""

from typing import Final

__all__ = ["HISTORY", "SCHEMA_VERSION"]

SCHEMA_VERSION: Final = "1"
"""Version of the format that this package writes."""

HISTORY: Final[dict[str, str]] = {
    "1": "First version: paired boots, serving, greedy and feature cells, four claims.",
}
"""Version -> one sentence on what it changed. Every version in it must stay verifiable."""
