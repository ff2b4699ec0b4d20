"""The commands of `k3-eval` that talk to a registry, against a real one in a process of its own."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from k3bundle.archive import read_archive
from k3bundle.seal import bundle_sha256
from k3bundle.verdict import Verdict
from k3bundle_testing.example_plan import EXAMPLE_CHANGE
from k3bundle_testing.sealing import sealed_archive
from k3runner import parts_upload, submit
from k3runner.cli import run_command_line
from k3runner.errors import RegistryError
from k3runner.node_facts import read_node_facts
from k3runner.parts_upload import upload_in_parts
from k3runner.plan import build_plan
from k3runner.registry_client import (
    Answer,
    Patience,
    RegistryClient,
    TryAgainError,
    registry_client,
)
from k3runner.run import RunResult
from k3runner.subjects import load_subject
from k3runner.tiers.own_files import load_tier_with
from k3server.cli import main as registry_command
from k3server_testing.process import RegistryProcess

SMOKE = sealed_archive()
AGAIN = sealed_archive(run_id="2" * 32)
STANDARD = sealed_archive(tier="standard", candidate_speed=1.3)


@dataclass(frozen=True)
class Outcome:
    """What one command line did."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Registry:
    """A registry at work, and its data folder."""

    url: str
    data: Path


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    folder = Path(tempfile.mkdtemp(prefix="k3-clients-"))
    with RegistryProcess(folder) as process:
        yield Registry(process.url, folder)
    shutil.rmtree(folder)


@pytest.fixture
def k3_eval(
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Outcome]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("K3EVAL_REGISTRY", registry.url)
    monkeypatch.delenv("K3EVAL_TOKEN", raising=False)

    def run(*arguments: object) -> Outcome:
        code = run_command_line([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def token(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Path]:
    def make(account: str, *scopes: str) -> Path:
        flags = [f"--scope={scope}" for scope in scopes]
        registry_command(["token", f"--data={registry.data}", f"--for={account}", *flags])
        path = tmp_path / f"{account}.token"
        path.write_text(capsys.readouterr().out)
        return path

    return make


def bundle_file(folder: Path, name: str, archive: bytes) -> tuple[Path, str]:
    path = folder / name
    path.write_bytes(archive)
    return path, bundle_sha256(read_archive(path))


def test_submit_with_a_token_says_who_and_status_tells_it(
    k3_eval: Callable[..., Outcome], token: Callable[..., Path], tmp_path: Path
) -> None:
    path, digest = bundle_file(tmp_path, "run.k3b", SMOKE)
    anonymous = k3_eval("submit", path)
    assert anonymous.code == 0
    assert anonymous.stdout.strip().endswith(f"/submissions/{digest}")
    lines = k3_eval("status", digest).stdout.splitlines()
    assert lines[0].startswith("verdict  ✓ PASS: ")
    assert lines[2] == "trust    self-reported, by nobody known"
    assert any(line.startswith("space    playground") for line in lines)
    sent = k3_eval("submit", path, "--token-file", token("lab"))
    assert sent.code == 0
    assert "The registry has the bundle already." in sent.stderr
    lines = k3_eval("status", path).stdout.splitlines()
    assert lines[2] == "trust    self-reported, by token:lab"
    assert not any(line.startswith("space") for line in lines)
    assert json.loads(k3_eval("status", path, "--json").stdout)["submission_id"] == digest


def test_token_that_does_not_work_and_account_that_cannot_be_asked_are_sentences(
    k3_eval: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digest = bundle_file(tmp_path, "other.k3b", sealed_archive(run_id="3" * 32))
    monkeypatch.setenv("K3EVAL_TOKEN", "k3r_" + "0" * 16 + "_" + "0" * 64)
    refused = k3_eval("submit", path)
    assert refused.code == 7
    assert "does not know who sends this" in refused.stderr
    assert "k3r_" not in refused.stderr.replace("`Authorization: Bearer k3r_...`", "")
    assert k3_eval("status", digest).code == 7
    monkeypatch.delenv("K3EVAL_TOKEN")
    assert k3_eval("submit", path, "--github-account", "no/account").code == 2
    # Refused for good, so not sent again and again.
    away = k3_eval("submit", path, "--github-account", "octocat")
    assert away.code == 4
    assert "This registry was not told where to ask for the keys of octocat" in away.stderr


def test_compare_agrees_on_two_runs_and_refuses_two_plans(
    k3_eval: Callable[..., Outcome], token: Callable[..., Path], tmp_path: Path
) -> None:
    paths = [
        bundle_file(tmp_path, f"{number}.k3b", archive)[0]
        for number, archive in enumerate((SMOKE, AGAIN, STANDARD))
    ]
    for path in paths:
        assert k3_eval("submit", path, "--token-file", token("lab")).code == 0
    same = k3_eval("compare", paths[0], paths[1])
    assert same.code == 0
    assert "compare  one reproduces the other; their contributors are not independent" in (
        same.stdout
    )
    assert "\ncell     greedy-c2: PASS, PASS\n" in same.stdout
    assert "\nratio    " in same.stdout
    other = k3_eval("compare", paths[0], paths[2]).stdout
    assert "compare  no: " in other
    assert "The plans differ: smoke of k3-tiny, and standard of" in other
    assert json.loads(k3_eval("compare", *paths[:2], "--json").stdout)["agree"] is True


def test_claim_and_release_on_the_board(
    k3_eval: Callable[..., Outcome], token: Callable[..., Path], registry: Registry
) -> None:
    moderator = token("operator", "moderate", "claim").read_text().strip()
    asked = httpx.post(
        f"{registry.url}/api/v1/board",
        json={**EXAMPLE_CHANGE.model_dump(), "tier": "full", "subject": "k3-nvfp4"},
        headers={"Authorization": f"Bearer {moderator}"},
    ).json()
    wanted = asked["wanted_id"]
    assert k3_eval("claim", wanted).code == 2
    mine = token("lab", "claim")
    got = k3_eval("claim", wanted, "--token-file", mine)
    assert got.code == 0
    assert got.stdout.splitlines()[-1].startswith("state    claimed by token:lab until ")
    taken = k3_eval("claim", wanted, "--token-file", token("other", "claim"))
    assert taken.code == 7
    assert "found token:lab until" in taken.stderr
    given = k3_eval("release", wanted, "--token-file", mine)
    assert given.stdout.splitlines()[-1] == "state    open"
    assert k3_eval("release", wanted, "--token-file", mine).code == 7
    assert k3_eval("claim", "0" * 16, "--token-file", mine).code == 7
    assert k3_eval("claim", "short", "--token-file", mine).code == 2


PART = 16 * 1024 * 1024
LARGE = bytes(range(251)) * (2 * PART // 251 + 1)


class Cut:
    """Makes the line break before some request, and counts parts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts = 0
        self.breaks_at_part = 0
        self.loses_completion = False
        request = RegistryClient.request

        async def cut(client: RegistryClient, method: str, path: str, **content: Any) -> Answer:
            if "/parts/" in path:
                if self.parts + 1 == self.breaks_at_part:
                    raise TryAgainError("the line broke")
                self.parts += 1
            answer = await request(client, method, path, **content)
            if path.endswith("/complete") and self.loses_completion:
                self.loses_completion = False
                raise TryAgainError("the answer was lost")
            return answer

        monkeypatch.setattr(RegistryClient, "request", cut)


async def send_large(registry: Registry, path: Path, said: list[str], attempts: int) -> bool:
    digest = hashlib.sha256(LARGE).hexdigest()
    async with registry_client(
        registry.url, say=said.append, patience=Patience(attempts=attempts, first_wait_s=0.0)
    ) as client:
        return await upload_in_parts(client, path, digest, len(LARGE))


async def test_parts_go_on_where_an_earlier_command_stopped(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    cut = Cut(monkeypatch)
    cut.breaks_at_part = 3
    said: list[str] = []
    with pytest.raises(RegistryError, match="the line broke"):
        await send_large(registry, path, said, attempts=1)
    assert cut.parts == 2
    cut.breaks_at_part = 0
    # The answer to the completion is lost, too: the archive is found there.
    cut.loses_completion = True
    assert await send_large(registry, path, said, attempts=2) is True
    assert cut.parts == 3
    assert said[0] == "Uploading 32 MiB in 3 parts of 16 MiB."
    assert said[1] == "Uploading 32 MiB in 3 parts of 16 MiB, 2 parts there already."
    digest = hashlib.sha256(LARGE).hexdigest()
    head = httpx.head(f"{registry.url}/api/v1/blobs/{digest}")
    assert head.headers["content-length"] == str(len(LARGE))


def test_submit_of_a_large_bundle_goes_in_parts(
    k3_eval: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parts_upload.PARTS_ABOVE_BYTES == 16 * 1024 * 1024
    monkeypatch.setattr(submit, "PARTS_ABOVE_BYTES", 1000)
    cut = Cut(monkeypatch)
    path, digest = bundle_file(tmp_path, "large.k3b", sealed_archive(run_id="4" * 32))
    sent = k3_eval("submit", path)
    assert sent.code == 0, sent.stderr
    assert cut.parts == 1
    assert sent.stdout.strip().endswith(digest)


def test_reproduce_runs_the_same_plan_with_another_nonce_and_no_other_plan(
    k3_eval: Callable[..., Outcome],
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example, other_plan = bundle_file(tmp_path, "example.k3b", SMOKE)
    k3_eval("submit", example)
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    machine = ("--engine-python", shutil.which("python3"), "--model", model)
    refused = k3_eval("reproduce", other_plan, *machine)
    assert refused.code == 5
    assert "A run here would be another plan: it differs in " in refused.stderr

    plan = build_plan(
        load_tier_with("smoke", None, None), load_subject("k3-tiny"), read_node_facts(), "paired"
    )
    path, digest = bundle_file(tmp_path, "mine.k3b", sealed_archive(plan=plan))
    assert k3_eval("submit", path).code == 0
    started: list[tuple[Any, ...]] = []

    def run(config: Any, change: Any, emit: Any) -> RunResult:
        started.append((config, change))
        verdict = Verdict.model_validate_json(read_archive(example)["verdict.json"])
        return RunResult(tmp_path, path, "ab" * 32, verdict)

    monkeypatch.setattr("k3runner.run.run", run)
    again = k3_eval("reproduce", digest, *machine)
    assert again.code == 0, again.stderr
    ((config, change),) = started
    assert (change, config.tier.name, config.registry_url) == (
        EXAMPLE_CHANGE,
        "smoke",
        registry.url,
    )
    assert f"--registry {registry.url}" in again.stderr
    kept = tmp_path / ".k3eval" / "runs" / f"original-{digest[:16]}.k3b"
    assert kept.read_bytes() == path.read_bytes()
    # Ids that are none, and submissions that are not there.
    assert k3_eval("reproduce", "abc").code == 2
    assert k3_eval("reproduce", "0" * 64).code == 7
