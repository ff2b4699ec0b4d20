"""The record of what was replaced before anything was written into a bundle."""

from k3bundle.record import Count, Record, ShortText

__all__ = ["ScrubReport", "ScrubRule"]


class ScrubRule(Record):
    """One kind of secret or identity and how often it was replaced."""

    name: ShortText
    """Kind, for example `home directory`."""
    replaced: Count
    """Occurrences replaced."""


class ScrubReport(Record):
    """`scrub.json`: every rule that was applied, also those that found nothing."""

    rules: tuple[ScrubRule, ...]
    """Rules in the order applied."""
