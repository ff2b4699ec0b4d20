"""Runs parts of the tests, some beside each other, and says how long each took."""

import subprocess
import sys
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from k3house.place import LOG, ROOT

__all__ = ["run_parts"]


@dataclass(frozen=True)
class _Outcome:
    part: str
    status: int
    seconds: float


def run_parts(
    parts: list[str],
    variables: list[str],
    *,
    beside: Collection[str] = (),
    root: Path = ROOT,
    logs: Path = LOG,
) -> int:
    """Run make targets in order; all of them, so that one run shows everything that is wrong.

    Args:
        parts: Names of make targets.
        variables: `NAME=value` words handed on to make.
        beside: Those of them that run at the same time as the one before; what they say is kept in
            a file, and shown when both have ended.
        root: Folder of the Makefile.
        logs: Folder of such files.

    Returns:
        0 when all passed, 1 otherwise.
    """
    groups: list[list[str]] = []
    for part in parts:
        if part in beside and groups:
            groups[-1].append(part)
        else:
            groups.append([part])
    started = time.monotonic()
    outcomes = [one for group in groups for one in _run_group(group, variables, root, logs)]
    for outcome in outcomes:
        word = "passed" if outcome.status == 0 else f"FAILED (status {outcome.status})"
        sys.stdout.write(f"{outcome.part:<14} {outcome.seconds:7.1f} s  {word}\n")
    failed = [outcome.part for outcome in outcomes if outcome.status]
    total = time.monotonic() - started
    sys.stdout.write(
        f"{len(outcomes) - len(failed)} of {len(outcomes)} parts passed in {total / 60:.1f} min"
        + (f"; failed: {', '.join(failed)}\n" if failed else "\n")
    )
    return 1 if failed else 0


def _run_group(group: list[str], variables: list[str], root: Path, logs: Path) -> list[_Outcome]:
    files = [logs / f"{part}.log" for part in group[1:]]
    for part, file in zip(group, [None, *files], strict=True):
        _tell(f"== {part}" + ("" if file is None else f", beside {group[0]}; it talks to {file}"))
    with ExitStack() as stack:
        if files:
            logs.mkdir(parents=True, exist_ok=True)
        voices = [None, *(stack.enter_context(file.open("wb")) for file in files)]
        with ThreadPoolExecutor(len(group)) as pool:
            outcomes = list(
                pool.map(lambda part, voice: _run(part, variables, root, voice), group, voices)
            )
    for part, file in zip(group[1:], files, strict=True):
        _tell(f"== {part} said beside {group[0]}:\n{file.read_text('utf-8', 'replace').rstrip()}")
    return outcomes


def _run(part: str, variables: list[str], root: Path, voice: IO[bytes] | None) -> _Outcome:
    started = time.monotonic()
    done = subprocess.run(
        ["make", "--no-print-directory", part, *variables],
        cwd=root,
        check=False,
        stdout=voice,
        stderr=None if voice is None else subprocess.STDOUT,
    )
    return _Outcome(part, done.returncode, time.monotonic() - started)


def _tell(words: str) -> None:
    sys.stderr.write(words + "\n")
    sys.stderr.flush()
