"""Check runs of a GitHub App, against a process that serves GitHub's published interface."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from k3server.adapters.sql.index import SqlIndex
from k3server.adapters.sql.moderation import SqlModeration
from k3server.adapters.sql.outbox import SqlOutbox
from k3server.forge.app import ForgeApp, read_app_key
from k3server.forge.client import ForgeClient, ForgeError, ForgeRefusedError, ForgeSilentError
from k3server.forge.messages import CheckRun
from k3server.forge.teller import Teller
from k3server.submission import NewSubmission
from k3server.trust import Attribution
from k3server_testing.example_document import example_document
from k3server_testing.fixed_clock import FixedClock
from k3server_testing.github.process import GithubProcess
from k3server_testing.registry import PUBLIC_URL, Registry

APP = 31
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CHANGE = example_document().manifest.change
REPOSITORY = CHANGE.repository
PULL = f"{REPOSITORY}#{CHANGE.pull_request}"
BASE = "ba" * 20
CHECK = CheckRun(CHANGE.commit_sha, None, "Missing: evidence", "Text.", f"{PUBLIC_URL}/x")
DONE = replace(CHECK, conclusion="success", title="All there.")
POLICY = """
policy_version = "1"
[[required]]
tier = "smoke"
claims = ["isolated", "bounded", "correct"]
"""


@pytest.fixture(scope="module")
def process() -> Iterator[GithubProcess]:
    with GithubProcess() as process:
        yield process


@pytest.fixture
def github(process: GithubProcess) -> GithubProcess:
    repository = {"full_name": REPOSITORY}
    process.set(
        pulls={
            PULL: {
                "head": {"sha": CHANGE.commit_sha, "repo": repository},
                "base": {"sha": BASE, "repo": repository},
                "state": "open",
            }
        },
        files={f"{REPOSITORY}@{BASE}:.k3-eval.toml": POLICY},
        app=app_state(),
        comments={},
        statuses=[],
        faults=[],
        requests=[],
    )
    return process


def app_state(**changes: Any) -> dict[str, Any]:
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    now = FixedClock().now()
    return {
        "app_id": APP,
        "public_key": public.decode(),
        "installed": [REPOSITORY],
        "now": now.isoformat(),
        "expires_at": now.replace(hour=now.hour + 1).isoformat(),
        **changes,
    }


@pytest.fixture
def client(github: GithubProcess) -> ForgeClient:
    return ForgeClient(github.url, "token", account="k3-eval")


@pytest.fixture
def app(client: ForgeClient) -> ForgeApp:
    return ForgeApp(client, FixedClock(), app_id=APP, key=KEY)


def checks(github: GithubProcess) -> list[tuple[str, str | None, str]]:
    return [
        (run["status"], run["conclusion"], run["output"]["title"])
        for run in github.state()["app"]["checks"]
    ]


def writes(github: GithubProcess) -> list[str]:
    return [r for r in github.state()["requests"] if "check-runs" in r and not r.startswith("GET")]


def test_check_run_is_made_once_then_changed(github: GithubProcess, app: ForgeApp) -> None:
    app.put_check(REPOSITORY, CHECK)
    app.put_check(REPOSITORY, CHECK)
    assert checks(github) == [("queued", None, "Missing: evidence")]
    app.put_check(REPOSITORY, DONE)
    app.put_check(REPOSITORY, DONE)
    assert checks(github) == [("completed", "success", "All there.")]
    made = f"/repos/{REPOSITORY}/check-runs"
    assert writes(github) == [f"POST {made}", f"PATCH {made}/1"]
    # One token for all of it.
    assert github.state()["app"]["tokens"] == ["ghs_0"]


def test_what_was_concluded_and_holds_no_longer_gets_a_newer_run(
    github: GithubProcess, app: ForgeApp
) -> None:
    app.put_check(REPOSITORY, DONE)
    app.put_check(REPOSITORY, CHECK)
    app.put_check(REPOSITORY, CHECK)
    assert [conclusion for _, conclusion, _ in checks(github)] == ["success", None]
    app.put_check(REPOSITORY, DONE)
    assert [conclusion for _, conclusion, _ in checks(github)] == ["success", "success"]


def test_check_runs_of_others_are_left_alone(github: GithubProcess, app: ForgeApp) -> None:
    app.put_check(REPOSITORY, CHECK)
    (run,) = github.state()["app"]["checks"]
    github.set(app=app_state(checks=[{**run, "app": {"id": APP + 1}}]))
    app = ForgeApp(app._client, FixedClock(), app_id=APP, key=KEY)
    app.put_check(REPOSITORY, DONE)
    assert checks(github) == [
        ("queued", None, "Missing: evidence"),
        ("completed", "success", "All there."),
    ]


def test_token_is_asked_for_again_before_it_ends(
    github: GithubProcess, client: ForgeClient
) -> None:
    clock = FixedClock()
    app = ForgeApp(client, clock, app_id=APP, key=KEY)
    app.put_check(REPOSITORY, CHECK)
    clock.advance(54 * 60)
    app.put_check(REPOSITORY, CHECK)
    assert len(github.state()["app"]["tokens"]) == 1
    clock.advance(2 * 60)
    later = clock.now().isoformat()
    ends = clock.now().replace(hour=clock.now().hour + 2).isoformat()
    state = github.state()["app"]
    github.set(app={**state, "now": later, "expires_at": ends})
    app.put_check(REPOSITORY, CHECK)
    assert len(github.state()["app"]["tokens"]) == 2
    assert len(checks(github)) == 1


def test_app_that_is_not_known_or_not_installed_is_a_refusal(
    github: GithubProcess, client: ForgeClient, app: ForgeApp
) -> None:
    stranger = ForgeApp(client, FixedClock(), app_id=APP, key=OTHER_KEY)
    with pytest.raises(ForgeRefusedError, match="answers 401"):
        stranger.put_check(REPOSITORY, CHECK)
    with pytest.raises(ForgeRefusedError, match="not installed in someone/else"):
        app.put_check("someone/else", CHECK)
    assert checks(github) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a key",
        ec.generate_private_key(ec.SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ),
        rsa.generate_private_key(public_exponent=65537, key_size=1024).private_bytes(  # noqa: S505
            Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
        ),
    ],
    ids=["nothing", "text", "another kind", "short"],
)
def test_key_that_is_no_apps_is_refused(content: bytes) -> None:
    with pytest.raises(ForgeError, match="xpected"):
        read_app_key(content)


def test_key_is_read_as_github_hands_it_out() -> None:
    pem = KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    assert read_app_key(pem).private_numbers() == KEY.private_numbers()


class LosesAnswers(ForgeApp):
    """Its first check run is made, and the answer to it is lost."""

    lost = False

    def put_check(self, repository: str, check: CheckRun) -> None:
        super().put_check(repository, check)
        if not self.lost:
            self.lost = True
            raise ForgeSilentError("The forge does not answer.")


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_teller_says_it_by_the_outbox_and_loses_and_doubles_nothing(
    registry: Registry, github: GithubProcess, client: ForgeClient, failures: int
) -> None:
    teller = Teller(
        registry.parts(),
        client,
        repositories=frozenset({REPOSITORY.lower()}),
        public_url=PUBLIC_URL,
        app=LosesAnswers(client, registry.clock, app_id=APP, key=KEY),
    )
    now = registry.clock.now()
    new = NewSubmission(example_document(), "1" * 64, 1, now, Attribution("github:a", "signed"))
    index = SqlIndex(registry.database, tells=True)
    digest = index.add(new).submission.row.bundle_sha256
    if failures:
        github.fail(502, times=failures)
    for _ in range(failures + 2):
        teller.work()
        registry.clock.advance(120)
        later = registry.clock.now().isoformat()
        github.set(app={**github.state()["app"], "now": later})
    assert SqlOutbox(registry.database).waiting() == 0
    assert checks(github) == [
        ("completed", "success", "All evidence that the repository asks for is there.")
    ]
    assert len(github.state()["comments"][PULL]) == 1
    SqlModeration(registry.database).decide(
        "retract", digest, actor="x", reason="y", at=registry.clock.now()
    )
    teller.work()
    assert [conclusion for _, conclusion, _ in checks(github)] == ["success", None]
    summary = github.state()["app"]["checks"][-1]["output"]["summary"]
    assert "Still missing" in summary
    assert "<!--" not in summary
