"""What the forge is told about a pull request: one commit status and one comment. Pure.

Every text from a bundle is shown as code, with what could end or leave it replaced, so nothing that
a contributor wrote becomes a link, an image, a mention or a table cell of its own.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from k3server.forge.policy import Decision
from k3server.trust import TrustLevel

__all__ = [
    "MARKER",
    "CheckRun",
    "Comment",
    "CommitStatus",
    "Row",
    "as_code",
    "check_of",
    "comment_of",
    "status_of",
]

MARKER: Final = "<!-- k3-eval:v1 -->"
"""First line of our comment, by which it is found again, beside its author."""
_CONTEXT: Final = "k3-eval"
_DESCRIPTION_LIMIT: Final = 140
_COMMENT_LIMIT: Final = 60_000
_ROWS_SHOWN: Final = 20
_CODE_LIMIT: Final = 120
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

StatusState = Literal["success", "failure", "pending", "error"]


@dataclass(frozen=True)
class Row:
    """One submission as the comment shows it."""

    bundle_sha256: str
    """The submission."""
    commit_sha: str
    """Commit that it is for."""
    tier: str
    """Tier."""
    subject: str
    """Name of the subject."""
    status: str
    """Verdict status."""
    sentence: str
    """The verdict in a sentence."""
    trust: TrustLevel
    """Its level now."""
    superseded: bool
    """Whether it is for a commit that is no longer the head."""


@dataclass(frozen=True)
class CommitStatus:
    """A status of a commit."""

    commit_sha: str
    """The commit."""
    state: StatusState
    """As the forge calls it."""
    description: str
    """At most 140 characters."""
    target_url: str
    """Page of the pull request here."""
    context: str = _CONTEXT
    """Name under which the status stands."""


@dataclass(frozen=True)
class Comment:
    """The one comment on a pull request."""

    body: str
    """Markdown, with the marker as its first line."""


@dataclass(frozen=True)
class CheckRun:
    """The one check run on the head, where the operator has an App."""

    commit_sha: str
    """The head."""
    conclusion: Literal["success"] | None
    """None while evidence is missing."""
    title: str
    """The status in a sentence."""
    summary: str
    """Markdown."""
    details_url: str
    """Page of the pull request here."""
    name: str = _CONTEXT
    """Name under which it stands."""


def status_of(
    commit_sha: str, decision: Decision | None, found: int, target_url: str
) -> CommitStatus:
    """The status of the head.

    Args:
        commit_sha: The head.
        decision: What the repository's policy says; None where it has none.
        found: Submissions for the head that count.
        target_url: Page of the pull request here.
    """
    if decision is None:
        state: StatusState = "success" if found else "pending"
        text = f"{found} submissions for this commit; the repository asks for none."
    elif decision.met:
        state, text = "success", "All evidence that the repository asks for is there."
    else:
        state = "pending"
        text = f"Missing: {decision.missing[0]}"
        if len(decision.missing) > 1:
            text += f" (and {len(decision.missing) - 1} more)"
    return CommitStatus(commit_sha, state, _cut(text, _DESCRIPTION_LIMIT), target_url)


def comment_of(
    commit_sha: str, decision: Decision | None, rows: Sequence[Row], target_url: str
) -> Comment:
    """The comment.

    Args:
        commit_sha: Head of the pull request.
        decision: What the repository's policy says; None where it has none.
        rows: All submissions that count, newest first.
        target_url: Page of the pull request here.
    """
    lines = [MARKER, f"### Evidence for {as_code(commit_sha[:12])}", ""]
    lines += _decision_lines(decision)
    current = [row for row in rows if not row.superseded]
    if current:
        lines += ["| verdict | tier | subject | trust | submission |", "|---|---|---|---|---|"]
        lines += [_line(row, target_url) for row in current[:_ROWS_SHOWN]]
        lines.append("")
    if len(current) > _ROWS_SHOWN:
        lines += [f"{len(current) - _ROWS_SHOWN} more are on the page.", ""]
    older = len(rows) - len(current)
    if older:
        lines += [f"{older} submissions are for commits that are no longer the head.", ""]
    lines.append(f"[Everything, with raw records and how to repeat it]({target_url})")
    return Comment(_cut("\n".join(lines) + "\n", _COMMENT_LIMIT))


def check_of(status: CommitStatus, comment: Comment) -> CheckRun:
    """The check run that says the same as status and comment."""
    return CheckRun(
        commit_sha=status.commit_sha,
        conclusion="success" if status.state == "success" else None,
        title=status.description,
        summary=comment.body.removeprefix(MARKER).lstrip("\n"),
        details_url=status.target_url,
    )


def as_code(text: str) -> str:
    """Text as a code span that nothing in it can end or leave."""
    shown = "".join(_plain(character) for character in text)
    return f"`{_cut(shown, _CODE_LIMIT).strip() or '-'}`"


def _decision_lines(decision: Decision | None) -> list[str]:
    if decision is None:
        return ["The repository's base has no policy, so nothing is required.", ""]
    if decision.met:
        return ["**All evidence that the repository asks for is there.**", ""]
    return ["**Still missing:**", "", *(f"- {as_code(one)}" for one in decision.missing), ""]


def _line(row: Row, target_url: str) -> str:
    root = target_url.split("/", 3)
    page = "/".join(root[:3]) + f"/submissions/{row.bundle_sha256}"
    cells = (
        f"{as_code(row.status)} {as_code(row.sentence)}",
        as_code(row.tier),
        as_code(row.subject),
        as_code(row.trust),
        f"[{row.bundle_sha256[:12]}]({page})",
    )
    return f"| {' | '.join(cells)} |"


def _plain(character: str) -> str:
    if character in "`|\\<>&" or unicodedata.category(character).startswith(("C", "Z")):
        return " " if character in " \n\t" else _REPLACEMENT
    return character


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"
