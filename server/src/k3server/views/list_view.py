"""What the list pages show. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from k3server.submission import SubmissionRow

__all__ = ["CommitGroup", "by_commit"]


@dataclass(frozen=True)
class CommitGroup:
    """The submissions of one commit, newest first."""

    commit_sha: str
    rows: tuple[SubmissionRow, ...]


def by_commit(rows: Sequence[SubmissionRow]) -> tuple[CommitGroup, ...]:
    """Group submissions by commit; the commit with the newest submission comes first.

    Args:
        rows: Submissions, newest first.
    """
    groups: dict[str, list[SubmissionRow]] = {}
    for row in rows:
        groups.setdefault(row.change.commit_sha, []).append(row)
    return tuple(CommitGroup(commit, tuple(members)) for commit, members in groups.items())
