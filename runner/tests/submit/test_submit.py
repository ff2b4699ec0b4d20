"""A bundle arrives once, whatever the registry does on the way; a refusal lists its findings."""

import hashlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from k3bundle.subject import ChangeUnderTest
from k3runner.errors import RefusedError, RegistryError
from k3runner.exit_code import ExitCode
from k3runner.registry_client import Patience
from k3runner.submit import Receipt, submit_bundle

CHANGE = ChangeUnderTest(
    repository="example/engine", pull_request=7, commit_sha="c0ffee" + "0" * 34
)
CONTENT = b"not a real bundle; a registry of these tests does not look inside" * 9000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    path = tmp_path / "run.k3b"
    path.write_bytes(CONTENT)
    return path


class Sending:
    """Sends the bundle without really waiting, and keeps what was said and waited."""

    def __init__(self, attempts: int = 4) -> None:
        self.said: list[str] = []
        self.waits: list[float] = []
        self.patience = Patience(attempts=attempts, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def send(self, bundle: Path, url: str) -> Receipt:
        return await submit_bundle(
            bundle, url, CHANGE, say=self.said.append, patience=self.patience
        )


def status(code: int, body: Any = None, **headers: str) -> Any:
    text = json.dumps(body) if body is not None else ""
    return lambda _request: web.Response(status=code, text=text, headers=headers)


async def test_submit_to_a_healthy_registry_uploads_once(bundle: Path, registry: Any) -> None:
    sending = Sending()

    receipt = await sending.send(bundle, registry.url)

    assert registry.seen == ["HEAD", "PUT", "POST"]
    assert registry.blobs == {DIGEST: CONTENT}
    assert registry.submissions[DIGEST] == {
        "blob_sha256": DIGEST,
        "repository": "example/engine",
        "pull_request": 7,
        "commit_sha": CHANGE.commit_sha,
    }
    assert receipt.url == f"{registry.url}/submissions/{DIGEST[:16]}"
    assert receipt.already_there is False
    assert sending.said == ["Uploaded the bundle."]


async def test_submit_again_sends_no_bytes_and_gets_the_same_submission(
    bundle: Path, registry: Any
) -> None:
    first = await Sending().send(bundle, registry.url)
    registry.seen.clear()
    sending = Sending()

    second = await sending.send(bundle, registry.url)

    assert registry.seen == ["HEAD", "POST"]
    assert second.already_there is True
    assert second.submission_id == first.submission_id
    assert sending.said == ["The registry has the bundle already."]


async def test_submit_503_twice_then_201_waits_longer_each_time(
    bundle: Path, registry: Any
) -> None:
    registry.script["PUT"] = [status(503), status(503)]
    sending = Sending()

    await sending.send(bundle, registry.url)

    assert registry.blobs == {DIGEST: CONTENT}
    assert sending.waits == [0.5, 1.0]
    assert sending.said[0] == "The registry answered 503; trying again in 0.5 s."


async def test_submit_retry_after_is_honoured_and_bounded(bundle: Path, registry: Any) -> None:
    registry.script["POST"] = [
        status(503, **{"Retry-After": "3"}),
        status(429, **{"Retry-After": "86400"}),
    ]
    sending = Sending()

    await sending.send(bundle, registry.url)

    assert sending.waits == [3.0, 20.0]


async def test_submit_lost_answers_to_the_upload_are_noticed_before_another_upload(
    bundle: Path, registry: Any
) -> None:
    # The HTTP library repeats a PUT once by itself, so losing one answer would not reach us.
    registry.script["PUT"] = ["lose the answer", "lose the answer"]
    sending = Sending()

    receipt = await sending.send(bundle, registry.url)

    assert registry.seen == ["HEAD", "PUT", "PUT", "HEAD", "POST"]
    assert registry.blobs == {DIGEST: CONTENT}
    assert "connection to the registry broke" in sending.said[0]
    assert receipt.already_there is False


async def test_submit_lost_answer_to_the_submission_ends_in_one_submission(
    bundle: Path, registry: Any
) -> None:
    registry.script["POST"] = ["lose the answer"]

    receipt = await Sending().send(bundle, registry.url)

    assert registry.seen == ["HEAD", "PUT", "POST", "POST"]
    assert len(registry.submissions) == 1
    assert receipt.already_there is True


async def test_submit_bytes_changed_on_the_way_are_sent_again(bundle: Path, registry: Any) -> None:
    registry.script["PUT"] = [status(422)]
    sending = Sending()

    await sending.send(bundle, registry.url)

    assert registry.blobs == {DIGEST: CONTENT}
    assert "bytes changed on the way" in sending.said[0]


async def test_submit_too_large_is_refused_at_once(bundle: Path, registry: Any) -> None:
    registry.script["PUT"] = [status(413, {"detail": "At most 1 MiB is taken."})]
    sending = Sending()

    with pytest.raises(RefusedError, match=r"larger than .* It said: At most 1 MiB is taken\."):
        await sending.send(bundle, registry.url)

    assert sending.waits == []
    assert bundle.read_bytes() == CONTENT


async def test_submit_refused_lists_every_finding(bundle: Path, registry: Any) -> None:
    problem = {
        "title": "Refused",
        "detail": "The bundle does not verify",
        "findings": [
            {"code": "change-mismatch", "where": "manifest.json", "why": "Other.", "hint": "Fix."},
            {"code": "number-mismatch", "where": "verdict.json", "why": "9 is not 8.", "hint": ""},
        ],
    }
    registry.script["POST"] = [status(422, problem)]

    with pytest.raises(RefusedError) as caught:
        await Sending().send(bundle, registry.url)

    assert caught.value.exit_code == ExitCode.REFUSED
    assert [f.code for f in caught.value.findings] == ["change-mismatch", "number-mismatch"]
    assert caught.value.problem == (
        "The registry refused the bundle with 2 findings. It said: The bundle does not verify."
    )
    assert "kept" in caught.value.hint


async def test_submit_hostile_refusal_cannot_act_on_the_terminal(
    bundle: Path, registry: Any
) -> None:
    hostile = "\x1b[2J\u202eSSAP"
    finding = {"code": hostile, "where": hostile, "why": hostile, "hint": 7}
    registry.script["POST"] = [status(422, {"detail": hostile, "findings": [finding, "odd"]})]

    with pytest.raises(RefusedError) as caught:
        await Sending().send(bundle, registry.url)

    shown = str(caught.value) + str(caught.value.findings)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "⟨U+001B⟩[2J⟨U+202E⟩SSAP" in shown


@pytest.mark.parametrize("body", ["", "[]", "<html>", "{", "[" * 100_000])
async def test_submit_refused_without_a_problem_document_still_refuses(
    bundle: Path, registry: Any, body: str
) -> None:
    registry.script["POST"] = [lambda _request: web.Response(status=422, text=body)]

    with pytest.raises(RefusedError, match=r"^The registry refused the bundle\. "):
        await Sending().send(bundle, registry.url)


@pytest.mark.parametrize(
    ("code", "words"),
    [(507, "no disk space"), (404, "does not know"), (411, "answered 411"), (302, "answered 302")],
)
async def test_submit_other_answers_are_registry_errors(
    bundle: Path, registry: Any, code: int, words: str
) -> None:
    registry.script["PUT"] = [status(code)]

    with pytest.raises(RegistryError, match=words):
        await Sending().send(bundle, registry.url)


async def test_submit_next_step_that_the_registry_says_is_said_once(
    bundle: Path, registry: Any
) -> None:
    said = "Expected another token. Ask the registry's operator."
    registry.script["PUT"] = [status(401, {"detail": said})]
    with pytest.raises(RegistryError) as caught:
        await Sending().send(bundle, registry.url)
    assert caught.value.problem.endswith(f"It said: {said}")
    assert caught.value.hint == ""


async def test_submit_accepted_with_a_strange_answer_is_a_registry_error(
    bundle: Path, registry: Any
) -> None:
    registry.script["POST"] = [status(201, {"submission_id": "x"})]

    with pytest.raises(RegistryError, match="lacks url, bundle_sha256, verdict, trust"):
        await Sending().send(bundle, registry.url)


async def test_submit_connection_refused_gives_up_and_keeps_the_bundle(bundle: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    sending = Sending(attempts=3)

    with pytest.raises(RegistryError) as caught:
        await sending.send(bundle, url)

    assert caught.value.exit_code == ExitCode.REGISTRY
    assert caught.value.problem == (
        f"The registry at {url} did not take the bundle in 3 attempts: the registry cannot be "
        "reached (connection refused)."
    )
    assert sending.waits == [0.5, 1.0]
    assert bundle.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("attempt", "asked", "wait"), [(0, None, 0.5), (3, None, 4.0), (30, None, 20.0), (0, -5.0, 0.0)]
)
def test_patience_wait_is_doubling_and_bounded(
    attempt: int, asked: float | None, wait: float
) -> None:
    assert Patience().wait_s(attempt, asked) == wait
