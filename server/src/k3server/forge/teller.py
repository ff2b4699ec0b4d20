"""The use case of telling the forge: a status and a comment that follow what the registry has.

What is told is computed anew each time from the registry and from what the forge says now, so it
does not matter how often or in which order something happened. A notice is forgotten only after the
forge took what it was told; telling it twice changes nothing.
"""

import logging
from datetime import timedelta
from typing import Final

from k3bundle.canonical import sha256_hex
from k3server.forge.app import ForgeApp
from k3server.forge.client import ForgeClient, ForgeError, ForgeSilentError, PullRequest
from k3server.forge.messages import Row, check_of, comment_of, status_of
from k3server.forge.policy import (
    POLICY_PATH,
    Decision,
    Evidence,
    PolicyError,
    decide,
    parse_policy,
)
from k3server.forge_ports import Notice, PullState
from k3server.parts import Parts
from k3server.submission import SubmissionRow

__all__ = ["Teller"]

_LOG: Final = logging.getLogger("k3server.forge")
_ROWS: Final = 200
_BATCH: Final = 10
_LEASE_S: Final = 300.0
_FIRST_WAIT_S: Final = 15.0
_LONGEST_WAIT_S: Final = 3600.0


class Teller:
    """Tells one forge about the pull requests of some repositories."""

    def __init__(
        self,
        parts: Parts,
        client: ForgeClient,
        *,
        repositories: frozenset[str],
        public_url: str,
        app: ForgeApp | None = None,
    ) -> None:
        """Keep the parts.

        Args:
            parts: The registry.
            client: The forge.
            repositories: `owner/name` in lower case; nothing is ever told about others, because
                anyone may submit for any repository.
            public_url: Address of the registry.
            app: Who makes check runs; None: there are none.
        """
        self._parts = parts
        self._client = client
        self._app = app
        self._repositories = repositories
        self._public_url = public_url

    def work(self) -> int:
        """Tell what is due; returns how many notices were looked at."""
        outbox, clock = self._parts.outbox, self._parts.clock
        notices = outbox.due(clock.now(), limit=_BATCH, lease_s=_LEASE_S)
        for notice in notices:
            try:
                self._tell(notice)
            except ForgeError as error:
                wait_s = min(_FIRST_WAIT_S * 2.0**notice.attempts, _LONGEST_WAIT_S)
                if isinstance(error, ForgeSilentError) and error.retry_after_s is not None:
                    wait_s = max(wait_s, error.retry_after_s)
                until = clock.now() + timedelta(seconds=wait_s)
                outbox.put_off(notice, until, str(error))
                _LOG.warning("not told about %s: %s", notice, error)
            else:
                outbox.done(notice)
        return len(notices)

    def _tell(self, notice: Notice) -> None:
        repository, number = notice.repository, notice.pull_request
        if repository not in self._repositories:
            return
        pull = self._client.pull_request(repository, number)
        if pull is None:
            return
        known = self._parts.outbox.pull(repository, number)
        rows = self._parts.index.of_pull(repository, number, limit=_ROWS, space="main")
        counted = [row for row in rows if row.state == "visible"]
        told = "" if known is None else known.told_sha256
        # A pull request about which there was never anything to say stays without a comment.
        if counted or told:
            told = self._say(pull, repository, number, counted, told)
        self._parts.outbox.keep_pull(
            repository,
            number,
            PullState(pull.head_sha, pull.open, told, self._parts.clock.now()),
        )

    def _say(
        self,
        pull: PullRequest,
        repository: str,
        number: int,
        counted: list[SubmissionRow],
        told: str,
    ) -> str:
        page = f"{self._public_url}/{repository}/pull/{number}"
        decision = self._decision(pull, counted)
        at_head = sum(row.change.commit_sha == pull.head_sha for row in counted)
        status = status_of(pull.head_sha, decision, at_head, page)
        shown = tuple(_row(row, pull.head_sha) for row in counted)
        comment = comment_of(pull.head_sha, decision, shown, page)
        check = check_of(status, comment)
        # With an App it is another digest, so that an App that comes later is told, too.
        said = f"{status}\n{comment.body}" + ("" if self._app is None else f"\n{check}")
        digest = sha256_hex(said.encode())
        if digest != told:
            self._client.set_status(pull.base_repository, status)
            self._client.put_comment(pull.base_repository, number, comment)
            if self._app is not None:
                self._app.put_check(pull.base_repository, check)
        return digest

    def _decision(self, pull: PullRequest, counted: list[SubmissionRow]) -> Decision | None:
        # The base's policy: a change cannot lower the bar that it has to pass.
        content = self._client.file_at(pull.base_repository, POLICY_PATH, pull.base_sha)
        if content is None:
            return None
        try:
            policy = parse_policy(content)
        except PolicyError as error:
            return Decision(met=False, missing=(str(error),), used=())
        evidence = [
            found
            for row in counted
            if row.change.commit_sha == pull.head_sha and (found := self._evidence(row)) is not None
        ]
        return decide(policy, pull.head_sha, evidence, self._parts.clock.now())

    def _evidence(self, row: SubmissionRow) -> Evidence | None:
        submission = self._parts.index.get(row.bundle_sha256)
        if submission is None:
            return None
        verdict = submission.document.verdict
        return Evidence(
            bundle_sha256=row.bundle_sha256,
            commit_sha=row.change.commit_sha,
            tier=row.summary.tier,
            subject=row.summary.subject,
            trust=row.trust,
            contributor=row.identity or f"key:{submission.document.signer_fingerprint}",
            received_at=row.received_at,
            passed_claims=frozenset(c.name for c in verdict.claims if c.status == "PASS"),
            passed_cells=frozenset(c.cell_id for c in verdict.cells if c.status == "PASS"),
        )


def _row(row: SubmissionRow, head_sha: str) -> Row:
    return Row(
        bundle_sha256=row.bundle_sha256,
        commit_sha=row.change.commit_sha,
        tier=row.summary.tier,
        subject=row.summary.subject,
        status=row.summary.status,
        sentence=row.summary.sentence,
        trust=row.trust,
        superseded=row.change.commit_sha != head_sha,
    )
