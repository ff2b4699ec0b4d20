"""Scrubs text before it reaches the disk, and keeps count until the bundle is sealed.

Logs of engines and of a package's commands come through here as they are said, and records before
they are journaled, so a run folder holds no more secrets than its bundle does. What this machine
needs to go on with a run (`local.json`) holds its paths and stays here.
Sealing looks at all text again, and reports both counts together.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from k3bundle import layout
from k3bundle.record import Record
from k3bundle.scrub import ScrubReport, ScrubRule
from k3runner.free_text import FREE_TEXT, clean_record
from k3runner.log_text import replace_text
from k3runner.scrub import Identities, Scrubber, map_text

__all__ = ["EarlyScrub", "with_earlier"]

_COUNTS: Final = "scrubbed.json"
_WORDS: Final = frozenset({"op", "group", "code", "outcome", "decided_on"})
"""Fields of one word of a fixed form: a user may be called like it, so only secrets count."""
_NAMES: Final = frozenset({"gpu", "commit"})
"""Names of facts that a verdict reads."""
_NOBODY: Final = Identities(home="", user="", host="", places={})
_MOST_WORDS: Final = 1000
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
        # Logs are cleaned in threads of their own.
        self._counting = threading.Lock()

    def reader(self) -> Callable[[str, str], str]:
        """What cleans the texts of one reading; `records` counts what it replaced.

        It gets the name of a field and a text of it. A word of a fixed form is a placeholder
        afterwards when it held a secret, and so is no such word any more.
        """
        self._read = read = Scrubber(self._identities)
        # The same few words stand in every line.
        word = lru_cache(maxsize=_MOST_WORDS)(Scrubber(_NOBODY).scrub)

        def clean(field: str, text: str) -> str:
            if field in _WORDS or (field == "name" and text in _NAMES):
                return word(text)
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

    def counted(self, text: str) -> str:
        """The text, clean; what was replaced is on disk when this returns. For any thread."""
        scrubber = Scrubber(self._identities)
        clean = scrubber.scrub(text)
        self._count(scrubber.report())
        return clean

    def record(self, name: str, record: AnyRecord) -> AnyRecord:
        """A record as it may be written.

        Args:
            name: File that it goes to. Lines of a kernel package were cleaned as they were read.
            record: The record.
        """
        if name == layout.KERNELS or name not in FREE_TEXT:
            return record
        scrubber = Scrubber(self._identities)
        clean = clean_record(record, FREE_TEXT[name], scrubber.scrub)
        self._count(scrubber.report())
        return clean

    def _count(self, report: ScrubReport) -> None:
        found = {rule.name: rule.replaced for rule in report.rules if rule.replaced}
        if not found:
            return
        with self._counting:
            counts = _earlier(self._folder)
            counts.update(found)
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
