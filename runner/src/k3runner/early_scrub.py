"""Scrubs text before it reaches the disk, and keeps count until the bundle is sealed.

What an engine writes into its log is its own to write; what the runner writes of it is not. So the
words of a kernel package are scrubbed before they are journaled, its raw output does not stay, and
its log is cleaned when its command ended, before a reason is taken from it.
Sealing looks at all text again, and reports both counts together.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from k3bundle.record import Record
from k3bundle.scrub import ScrubReport, ScrubRule
from k3runner.log_text import log_text, replace_text
from k3runner.scrub import Identities, Scrubber, map_text

__all__ = ["EarlyScrub", "with_earlier"]

_COUNTS: Final = "scrubbed.json"
_WORDS: Final = frozenset({"op", "group", "code", "outcome", "decided_on"})
"""Fields of one word of a fixed form: a user may be called like it, so only secrets count."""
_NAMES: Final = frozenset({"gpu", "commit"})
"""Names of facts that a verdict reads."""
_NOBODY: Final = Identities(home="", user="", host="", places={})
_LONGEST_LOG: Final = 128 * 1024
"""Less than a sealed log may have, so that sealing cuts it no second time."""
_LONGEST: Final = 2000
"""Most letters of a text in a record; a placeholder may be longer than what it stands for."""
AnyRecord = TypeVar("AnyRecord", bound=Record)


class EarlyScrub:
    """Scrubs records and texts of one run before they are written."""

    def __init__(self, folder: Path, identities: Identities) -> None:
        """Remembers where the counts go; nothing is read or made yet.

        Args:
            folder: Run folder.
            identities: What must not be told.
        """
        self._folder = folder
        self._identities = identities
        self._read = Scrubber(identities)

    def reader(self) -> Callable[[str, str], str]:
        """What cleans the texts of one reading; `records` counts what it replaced.

        It gets the name of a field and a text of it. A word of a fixed form is a placeholder
        afterwards when it held a secret, and so is no such word any more.
        """
        self._read = read = Scrubber(self._identities)
        words = Scrubber(_NOBODY)

        def clean(field: str, text: str) -> str:
            if field in _WORDS or (field == "name" and text in _NAMES):
                return words.scrub(text)
            return read.scrub(text)

        return clean

    def records(self, records: Iterable[AnyRecord], fields: Iterable[str]) -> list[AnyRecord]:
        """The records with clean text in these fields; what was replaced is on disk before them."""
        scrubber, self._read = self._read, Scrubber(self._identities)
        names = tuple(fields)
        clean = [
            type(record).model_validate(_clean(record.model_dump(), names, scrubber))
            for record in records
        ]
        self._count(scrubber.report())
        return clean

    def text(self, text: str) -> str:
        """The text, clean; what was replaced counts in no report, since it enters no bundle."""
        return Scrubber(self._identities).scrub(text)

    def log(self, path: Path) -> None:
        """Cleans a log in its place, and cuts it as sealing would; done twice, it stays."""
        if path.is_file():
            scrubber = Scrubber(self._identities)
            replace_text(path, scrubber.scrub(log_text(path, _LONGEST_LOG)))
            self._count(scrubber.report())

    def _count(self, report: ScrubReport) -> None:
        counts = _earlier(self._folder)
        counts.update({rule.name: rule.replaced for rule in report.rules})
        replace_text(self._folder / _COUNTS, json.dumps(counts, sort_keys=True))


def with_earlier(report: ScrubReport, folder: Path) -> ScrubReport:
    """A report with what was replaced before sealing added to it."""
    counts = _earlier(folder)
    return ScrubReport(
        rules=tuple(
            ScrubRule(name=rule.name, replaced=rule.replaced + counts[rule.name])
            for rule in report.rules
        )
    )


def _clean(values: Mapping[str, Any], fields: tuple[str, ...], scrubber: Scrubber) -> Any:
    def clean(text: str) -> str:
        return scrubber.scrub(text)[:_LONGEST]

    return {
        name: map_text(value, clean) if name in fields else value for name, value in values.items()
    }


def _earlier(folder: Path) -> Counter[str]:
    path = folder / _COUNTS
    return Counter(json.loads(path.read_text("utf-8"))) if path.is_file() else Counter()
