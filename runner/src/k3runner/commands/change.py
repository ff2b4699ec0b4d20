"""Turns the three flags that name a change into the record, or says which one is wrong."""

import re
from typing import Final

from k3bundle.subject import ChangeUnderTest
from k3runner.errors import UsageError
from k3runner.visible import one_line

__all__ = ["change_from_flags", "optional_change"]

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.-]{1,100}")
_FULL_SHA: Final = re.compile(r"[0-9a-f]{40}")
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_LARGEST_NUMBER: Final = 10_000_000


def change_from_flags(repository: str, pull_request: str, commit: str) -> ChangeUnderTest:
    """Check the flags of a change and return the record.

    Raises:
        UsageError: A flag is wrong; the sentence says which, and how to get the right value.
    """
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError(
            f"--repository must look like OWNER/NAME, found `{one_line(repository, 80)}`.",
            "Take the two words after the host in the repository's address.",
        )
    number = int(pull_request) if _DIGITS.fullmatch(pull_request) else 0
    if not 1 <= number <= _LARGEST_NUMBER:
        found = one_line(pull_request, 80)
        raise UsageError(
            f"--pull-request must be a number from 1 to {_LARGEST_NUMBER}, found `{found}`.",
            "Take the number at the end of the pull request's address.",
        )
    if not _FULL_SHA.fullmatch(commit):
        raise UsageError(_why_not_a_sha(commit), "Get it with `git rev-parse HEAD`.")
    return ChangeUnderTest(repository=repository, pull_request=number, commit_sha=commit)


def optional_change(
    repository: str | None, pull_request: str | None, commit: str | None
) -> ChangeUnderTest | None:
    """Return the change when all three flags are given, and None when none is.

    Raises:
        UsageError: Only some are given, or one is wrong.
    """
    if repository is None and pull_request is None and commit is None:
        return None
    if repository is None or pull_request is None or commit is None:
        raise UsageError(
            "--repository, --pull-request and --commit name a change together; found only some.",
            "Give all three, or none.",
        )
    return change_from_flags(repository, pull_request, commit)


def _why_not_a_sha(commit: str) -> str:
    expected = "--commit must be the full SHA, 40 hex digits in lower case"
    if re.fullmatch(r"[0-9a-f]*", commit):
        return f"{expected}; found {len(commit)}: `{one_line(commit, 80)}`."
    return f"{expected}; found `{one_line(commit, 80)}`."
