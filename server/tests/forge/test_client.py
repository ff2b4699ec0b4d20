"""The client against a process that answers as the published interface describes."""

from collections.abc import Iterator

import pytest

from k3server.forge.client import ForgeClient, ForgeError, ForgeRefusedError, ForgeSilentError
from k3server.forge.messages import MARKER, Comment, CommitStatus
from k3server_testing.github.process import GithubProcess

REPOSITORY = "example/engine"
PULL = f"{REPOSITORY}#7"
HEAD, BASE = "a" * 40, "b" * 40
COMMENT = Comment(f"{MARKER}\nfirst\n")


@pytest.fixture(scope="module")
def process() -> Iterator[GithubProcess]:
    with GithubProcess() as running:
        yield running


@pytest.fixture
def github(process: GithubProcess) -> GithubProcess:
    process.set(
        pulls={PULL: {"head": {"sha": HEAD}, "base": {"sha": BASE}, "state": "open"}},
        commits={PULL: [HEAD, "c" * 40]},
        files={f"{REPOSITORY}@{BASE}:.k3-eval.toml": 'policy_version = "1"\n'},
        keys={"alice": ["ssh-ed25519 AAAA one"]},
        comments={},
        statuses=[],
        faults=[],
        requests=[],
    )
    return process


@pytest.fixture
def client(github: GithubProcess) -> ForgeClient:
    return ForgeClient(github.url, "token", account="k3-eval")


def test_a_pull_request_has_head_base_and_state(client: ForgeClient) -> None:
    found = client.pull_request(REPOSITORY, 7)
    assert found is not None
    assert (found.head_sha, found.base_sha, found.open) == (HEAD, BASE, True)
    assert client.pull_request(REPOSITORY, 8) is None


def test_a_fork_that_is_gone_has_no_repository(client: ForgeClient, github: GithubProcess) -> None:
    github.set(pulls={PULL: {"head": {"sha": HEAD, "repo": None}, "state": "closed"}})
    found = client.pull_request(REPOSITORY, 7)
    assert found is not None
    assert (found.head_repository, found.open) == (None, False)


def test_commits_are_read_over_all_pages(client: ForgeClient, github: GithubProcess) -> None:
    many = [f"{number:040x}" for number in range(250)]
    github.set(commits={PULL: many})
    assert client.commits(REPOSITORY, 7) == frozenset(many)


def test_a_file_is_read_at_a_commit(client: ForgeClient) -> None:
    assert client.file_at(REPOSITORY, ".k3-eval.toml", BASE) == b'policy_version = "1"\n'
    assert client.file_at(REPOSITORY, ".k3-eval.toml", HEAD) is None


def test_keys_of_an_account(client: ForgeClient) -> None:
    assert client.signing_keys("alice") == ("ssh-ed25519 AAAA one",)
    assert client.signing_keys("bob") == ()


def test_a_status_is_set_as_the_interface_wants_it(
    client: ForgeClient, github: GithubProcess
) -> None:
    client.set_status(REPOSITORY, CommitStatus(HEAD, "pending", "Missing: x", "https://r.example"))
    (status,) = github.state()["statuses"]
    assert (status["sha"], status["state"], status["context"]) == (HEAD, "pending", "k3-eval")


def test_a_status_that_is_too_long_is_refused(client: ForgeClient) -> None:
    with pytest.raises(ForgeRefusedError, match="422"):
        client.set_status(REPOSITORY, CommitStatus(HEAD, "pending", "x" * 200, "https://r.example"))


def test_the_comment_is_made_once_and_then_changed(
    client: ForgeClient, github: GithubProcess
) -> None:
    client.put_comment(REPOSITORY, 7, COMMENT)
    client.put_comment(REPOSITORY, 7, COMMENT)
    client.put_comment(REPOSITORY, 7, Comment(f"{MARKER}\nsecond\n"))
    (comment,) = github.state()["comments"][PULL]
    assert comment["body"] == f"{MARKER}\nsecond\n"
    changes = [line for line in github.state()["requests"] if line.startswith("PATCH")]
    assert len(changes) == 1


def test_somebody_elses_comment_with_the_marker_is_left_alone(
    client: ForgeClient, github: GithubProcess
) -> None:
    theirs = [
        {"id": 900 + number, "body": f"{MARKER}\nmine\n", "user": {"login": "mallory"}}
        for number in range(130)
    ]
    github.set(comments={PULL: theirs})
    client.put_comment(REPOSITORY, 7, COMMENT)
    client.put_comment(REPOSITORY, 7, Comment(f"{MARKER}\nsecond\n"))
    found = github.state()["comments"][PULL]
    assert len(found) == 131
    assert {one["body"] for one in found[:130]} == {f"{MARKER}\nmine\n"}
    assert found[130]["body"] == f"{MARKER}\nsecond\n"


def test_a_comment_that_failed_after_its_effect_is_not_doubled(
    client: ForgeClient, github: GithubProcess
) -> None:
    client.put_comment(REPOSITORY, 7, COMMENT)
    github.fail(502, after=True)
    with pytest.raises(ForgeSilentError):
        client.put_comment(REPOSITORY, 7, Comment(f"{MARKER}\nsecond\n"))
    client.put_comment(REPOSITORY, 7, Comment(f"{MARKER}\nsecond\n"))
    assert len(github.state()["comments"][PULL]) == 1


@pytest.mark.parametrize(
    ("status", "headers", "wait_s"),
    [
        (429, {"Retry-After": "7"}, 7.0),
        (403, {"Retry-After": "7"}, 7.0),
        (403, {"X-RateLimit-Remaining": "0"}, 60.0),
        (403, {"Retry-After": "1e9"}, 3600.0),
        (502, {}, None),
    ],
)
def test_what_may_work_later_says_when(
    client: ForgeClient,
    github: GithubProcess,
    status: int,
    headers: dict[str, str],
    wait_s: float | None,
) -> None:
    github.fail(status, headers=headers)
    with pytest.raises(ForgeSilentError) as silent:
        client.pull_request(REPOSITORY, 7)
    assert silent.value.retry_after_s == wait_s


def test_a_refusal_is_final(client: ForgeClient, github: GithubProcess) -> None:
    github.fail(403)
    with pytest.raises(ForgeRefusedError, match="403"):
        client.pull_request(REPOSITORY, 7)


def test_a_redirect_is_not_followed(client: ForgeClient, github: GithubProcess) -> None:
    github.fail(302, headers={"Location": "http://metadata.example/latest"})
    with pytest.raises(ForgeRefusedError, match="302"):
        client.pull_request(REPOSITORY, 7)
    assert len(github.state()["requests"]) == 1


def test_nobody_there_is_silence_and_a_bad_address_is_refused() -> None:
    with pytest.raises(ForgeSilentError, match="does not answer"):
        ForgeClient("http://127.0.0.1:9", "", account="x").pull_request(REPOSITORY, 7)
    with pytest.raises(ForgeError, match="http or https"):
        ForgeClient("file:///etc/passwd", "", account="x")
