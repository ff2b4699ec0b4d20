"""The ledger of started runs: one file per user of a machine, outside of every run folder.

A line when a run is started and one when its bundle is sealed. Nothing is ever taken out. Who
deletes the file can begin anew, and no bundle can show that; it keeps the honest from forgetting.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from k3bundle.earlier_record import EarlierRun, EarlierRuns
from k3bundle.run import RunIdentity
from k3bundle.subject import ChangeUnderTest

__all__ = ["RunLedger"]

_NAME: Final = "runs.jsonl"
_MOST: Final = 1000
_NO_FOLDER: Final = (
    "No folder for the runner's state is known: HOME, XDG_STATE_HOME and K3EVAL_STATE are not set."
)


class RunLedger:
    """The ledger of one user."""

    def __init__(self, folder: Path | None) -> None:
        """Remembers where it lies; nothing is read or made yet.

        Args:
            folder: Folder of the runner's state; None: there is none.
        """
        self._folder = folder

    def start(self, identity: RunIdentity, change: ChangeUnderTest) -> EarlierRuns:
        """Notes that a run is started.

        Returns:
            What was started before; where the ledger cannot be kept, why.
        """
        if self._folder is None:
            return _unknown(_NO_FOLDER)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lines = self._append(
                {
                    "event": "started",
                    "run_id": identity.run_id,
                    "plan_sha256": identity.plan_sha256,
                    "repository": change.repository,
                    "commit_sha": change.commit_sha,
                    "started_at_utc": identity.created_at_utc,
                }
            )
        except OSError as error:
            return _unknown(f"The ledger cannot be kept: {error.strerror}.")
        return _earlier(lines, identity, change)

    def sealed(self, run_id: str, verdict: str) -> None:
        """Notes that the bundle of a run is sealed; a ledger that cannot be written is left."""
        if self._folder is None or not (self._folder / _NAME).is_file():
            return
        try:
            self._append({"event": "sealed", "run_id": run_id, "verdict": verdict})
        except OSError:
            # The run counts as started, which is what a later one has to know.
            return

    def _append(self, entry: Mapping[str, str]) -> list[Mapping[str, Any]]:
        """Adds a line while nobody else does; returns the lines before it."""
        if self._folder is None:
            return []
        with (self._folder / _NAME).open("a+b") as file:
            os.fchmod(file.fileno(), 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content = file.read()
            # A torn line of a killed runner must not swallow the next one.
            torn = b"" if not content or content.endswith(b"\n") else b"\n"
            file.write(torn + json.dumps(entry, sort_keys=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return list(_entries(content))


def _entries(content: bytes) -> Iterator[Mapping[str, Any]]:
    for line in content.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _earlier(
    lines: list[Mapping[str, Any]], identity: RunIdentity, change: ChangeUnderTest
) -> EarlierRuns:
    verdicts = {one.get("run_id"): one.get("verdict") for one in lines if _is(one, "sealed")}
    runs: dict[str, EarlierRun] = {}
    others = 0
    for one in lines:
        ours = (one.get("repository"), one.get("commit_sha"))
        if not _is(one, "started") or ours != (change.repository, change.commit_sha):
            continue
        if one.get("plan_sha256") != identity.plan_sha256:
            others += 1
            continue
        found = _run(one, verdicts.get(one.get("run_id")))
        if found is not None and found.run_id != identity.run_id:
            runs[found.run_id] = found
    listed = tuple(runs.values())[-_MOST:]
    return EarlierRuns(
        why_unknown=None, runs=listed, left_out=len(runs) - len(listed), other_plans=others
    )


def _is(entry: Mapping[str, Any], event: str) -> bool:
    return entry.get("event") == event


def _run(entry: Mapping[str, Any], verdict: object) -> EarlierRun | None:
    """An entry as a record; None for one that somebody wrote by hand."""
    try:
        return EarlierRun.model_validate(
            {
                "run_id": entry.get("run_id"),
                "started_at_utc": entry.get("started_at_utc"),
                "verdict": verdict,
            }
        )
    except ValidationError:
        return None


def _unknown(why: str) -> EarlierRuns:
    return EarlierRuns(why_unknown=why, runs=(), left_out=0, other_plans=0)
