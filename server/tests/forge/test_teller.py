"""Telling the forge: against a process that serves GitHub's published interface."""

from collections.abc import Iterator
from typing import Any

import pytest

from k3server.adapters.sql.moderation import SqlModeration
from k3server.adapters.sql.outbox import SqlOutbox
from k3server.forge.client import ForgeClient, ForgeSilentError
from k3server.forge.messages import MARKER, Comment
from k3server.forge.teller import Teller
from k3server.submission import NewSubmission
from k3server.trust import Attribution
from k3server_testing.example_document import example_document
from k3server_testing.github.process import GithubProcess
from k3server_testing.registry import PUBLIC_URL, Registry

CHANGE = example_document().manifest.change
PULL = f"{CHANGE.repository}#{CHANGE.pull_request}"
BASE = "ba" * 20
POLICY = """
policy_version = "1"
[[required]]
tier = "smoke"
least_trust = "signed"
claims = ["isolated", "bounded", "correct"]
"""


@pytest.fixture(scope="module")
def process() -> Iterator[GithubProcess]:
    with GithubProcess() as process:
        yield process


def pull(head: str) -> dict[str, Any]:
    repository = {"full_name": CHANGE.repository}
    return {
        "head": {"sha": head, "repo": repository},
        "base": {"sha": BASE, "repo": repository},
        "state": "open",
    }


@pytest.fixture
def github(process: GithubProcess) -> GithubProcess:
    process.set(
        pulls={PULL: pull(CHANGE.commit_sha)},
        files={},
        comments={},
        statuses=[],
        faults=[],
        requests=[],
    )
    return process


@pytest.fixture
def teller(registry: Registry, github: GithubProcess) -> Teller:
    client = ForgeClient(github.url, "token", account="k3-eval")
    return Teller(
        registry.parts(),
        client,
        repositories=frozenset({CHANGE.repository.lower()}),
        public_url=PUBLIC_URL,
    )


def submit(registry: Registry, number: int = 1, identity: str | None = "github:alice") -> str:
    document = example_document(run_id=f"{number:032x}")
    attribution = None if identity is None else Attribution(identity, "signed")
    new = NewSubmission(document, f"{number:064x}", 1, registry.clock.now(), attribution)
    added = registry.index.add(new)
    note(registry)
    return added.submission.row.bundle_sha256


def note(registry: Registry) -> None:
    outbox = SqlOutbox(registry.database)
    outbox.note(CHANGE.repository, CHANGE.pull_request, registry.clock.now())


def comments(github: GithubProcess) -> list[str]:
    found = github.state()["comments"].get(PULL, [])
    return [comment["body"] for comment in found]


def states(github: GithubProcess) -> list[str]:
    return [status["state"] for status in github.state()["statuses"]]


def test_submission_becomes_one_status_and_one_comment(
    registry: Registry, github: GithubProcess, teller: Teller
) -> None:
    digest = submit(registry)
    assert teller.work() == 1
    (comment,) = comments(github)
    assert comment.startswith(MARKER)
    assert f"{PUBLIC_URL}/submissions/{digest}" in comment
    assert states(github) == ["success"]
    assert SqlOutbox(registry.database).waiting() == 0


def test_second_submission_changes_the_comment_and_makes_no_other(
    registry: Registry, github: GithubProcess, teller: Teller
) -> None:
    submit(registry, 1)
    teller.work()
    second = submit(registry, 2)
    teller.work()
    (comment,) = comments(github)
    assert second[:12] in comment


def test_nothing_new_is_not_told_again(
    registry: Registry, github: GithubProcess, teller: Teller
) -> None:
    submit(registry)
    teller.work()
    github.set(requests=[])
    note(registry)
    teller.work()
    writes = [r for r in github.state()["requests"] if not r.startswith("GET")]
    assert writes == []


@pytest.mark.parametrize("failures", [1, 4])
def test_forge_that_is_down_is_told_later_and_once(
    registry: Registry, github: GithubProcess, teller: Teller, failures: int
) -> None:
    submit(registry)
    github.fail(502, times=failures)
    for _ in range(10):
        teller.work()
        registry.clock.advance(600)
    assert len(comments(github)) == 1
    assert states(github) == ["success"]
    assert SqlOutbox(registry.database).waiting() == 0


class LosesAnswers(ForgeClient):
    """Its first comment is made, and the answer to it is lost."""

    lost = False

    def put_comment(self, repository: str, number: int, comment: Comment) -> None:
        super().put_comment(repository, number, comment)
        if not self.lost:
            self.lost = True
            raise ForgeSilentError("The forge does not answer.")


def test_answer_that_is_lost_after_the_comment_was_made_makes_no_second_one(
    registry: Registry, github: GithubProcess
) -> None:
    client = LosesAnswers(github.url, "token", account="k3-eval")
    repositories = frozenset({CHANGE.repository.lower()})
    teller = Teller(registry.parts(), client, repositories=repositories, public_url=PUBLIC_URL)
    submit(registry)
    teller.work()
    assert SqlOutbox(registry.database).waiting() == 1
    registry.clock.advance(600)
    teller.work()
    assert SqlOutbox(registry.database).waiting() == 0
    assert len(comments(github)) == 1


def test_policy_of_the_base_decides_and_a_retraction_takes_it_back(
    registry: Registry, github: GithubProcess, teller: Teller
) -> None:
    github.set(files={f"{CHANGE.repository}@{BASE}:.k3-eval.toml": POLICY})
    digest = submit(registry)
    teller.work()
    assert states(github) == ["success"]
    SqlModeration(registry.database).decide(
        "retract", digest, actor="x", reason="y", at=registry.clock.now()
    )
    teller.work()
    assert states(github) == ["success", "pending"]
    assert "Still missing" in comments(github)[0]


def test_policy_of_the_head_is_not_read(
    registry: Registry, github: GithubProcess, teller: Teller
) -> None:
    lax = POLICY.replace("signed", "self-reported")
    github.set(
        files={
            f"{CHANGE.repository}@{BASE}:.k3-eval.toml": POLICY.replace("signed", "audited"),
            f"{CHANGE.repository}@{CHANGE.commit_sha}:.k3-eval.toml": lax,
        }
    )
    submit(registry)
    teller.work()
    assert states(github) == ["pending"]


def test_policy_that_cannot_be_read_is_pending_and_says_why(
    registry: Registry, github: GithubProcess, teller: Teller
) -> None:
    github.set(files={f"{CHANGE.repository}@{BASE}:.k3-eval.toml": "not toml ["})
    submit(registry)
    teller.work()
    assert states(github) == ["pending"]
    assert "is not TOML" in comments(github)[0]


def test_after_a_force_push_evidence_for_the_old_head_does_not_count(
    registry: Registry, github: GithubProcess, teller: Teller
) -> None:
    submit(registry)
    teller.work()
    github.set(pulls={PULL: pull("fe" * 20)})
    note(registry)
    teller.work()
    assert states(github) == ["success", "pending"]
    (comment,) = comments(github)
    assert "no longer the head" in comment
    state = SqlOutbox(registry.database).pull(CHANGE.repository, CHANGE.pull_request)
    assert state is not None
    assert state.head_sha == "fe" * 20


def test_playground_and_other_repositories_cause_no_word(
    registry: Registry, github: GithubProcess, teller: Teller
) -> None:
    submit(registry, identity=None)
    outbox = SqlOutbox(registry.database)
    outbox.note("someone/else", 1, registry.clock.now())
    assert teller.work() == 2
    assert comments(github) == states(github) == []
    assert not any("someone/else" in request for request in github.state()["requests"])
    assert outbox.waiting() == 0
