"""Which change the evidence is for, checked before anything is installed. Pure but for git."""

import re
import subprocess
from dataclasses import dataclass

from k3house.place import ROOT
from k3house.problem import EXIT_USAGE, HouseError

__all__ = ["Change", "head_commit", "parse_change"]

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.-]{1,100}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PULL_REQUEST = re.compile(r"[1-9][0-9]{0,6}|10000000")


@dataclass(frozen=True)
class Change:
    """A pull request at one commit."""

    repository: str
    pull_request: str
    commit: str


def parse_change(repository: str, pull_request: str, commit: str) -> Change:
    """Check the three values. The referee checks them again; here a typo costs no installation.

    Raises:
        HouseError: One of them has the wrong shape.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise HouseError(
            f"REPOSITORY must be owner/name, found `{repository}`.",
            "for example: make eval REPOSITORY=example/engine",
            EXIT_USAGE,
        )
    if not _PULL_REQUEST.fullmatch(pull_request):
        raise HouseError(
            f"PULL_REQUEST must be a number from 1 to 10000000, found `{pull_request}`.",
            "for example: make eval PULL_REQUEST=7",
            EXIT_USAGE,
        )
    if not _COMMIT.fullmatch(commit):
        raise HouseError(
            f"COMMIT must be a full commit SHA of 40 lower-case hex digits, found `{commit}`.",
            'print it with "git rev-parse HEAD"; a short SHA can come to name another commit.',
            EXIT_USAGE,
        )
    return Change(repository, pull_request, commit)


def head_commit() -> str:
    """The commit that is checked out here.

    Raises:
        HouseError: This is not a git checkout, or git is missing.
    """
    try:
        # A checkout that another user owns is read all the same: nothing in it is executed.
        done = subprocess.run(
            ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "rev-parse", "HEAD"],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        raise HouseError(
            "COMMIT is not given, and git cannot tell which commit is checked out here.",
            "give it: make eval COMMIT=<full SHA>",
            EXIT_USAGE,
        ) from None
    return done.stdout.strip()
