"""From the raw records of a run to its verdict. Pure: a verifier derives the same again."""

from k3bundle.derive.verdict_rule import derive

__all__ = ["derive"]
