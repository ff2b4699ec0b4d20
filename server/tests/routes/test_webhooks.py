import hashlib
import hmac
import json
from typing import Any

import httpx
import pytest

from k3server.adapters.sql.outbox import SqlOutbox
from k3server_testing.example_document import example_document
from k3server_testing.registry import Registry

SECRET = b"a secret of the webhook"
CHANGE = example_document().manifest.change
URL = "/api/v1/webhooks/github"


@pytest.fixture
def registry(registry: Registry) -> Registry:
    registry.limit(webhook_secret=SECRET)
    return registry


def comment(body: str, author: str = "alice") -> dict[str, Any]:
    return {
        "action": "created",
        "issue": {"number": CHANGE.pull_request, "pull_request": {"url": "x"}},
        "comment": {"body": body, "user": {"login": author}},
        "repository": {"full_name": CHANGE.repository},
    }


PUSHED = {
    "action": "synchronize",
    "pull_request": {"number": CHANGE.pull_request},
    "repository": {"full_name": CHANGE.repository},
}


async def deliver(
    client: httpx.AsyncClient,
    content: dict[str, Any],
    *,
    event: str = "pull_request",
    guid: str = "guid-1",
    secret: bytes = SECRET,
) -> httpx.Response:
    body = json.dumps(content).encode()
    signature = hmac.new(secret, body, hashlib.sha256).hexdigest()
    headers = {
        "X-Hub-Signature-256": f"sha256={signature}",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": guid,
    }
    return await client.post(URL, content=body, headers=headers)


def waiting(registry: Registry) -> int:
    return SqlOutbox(registry.database).waiting()


async def test_delivery_puts_the_pull_request_into_the_outbox(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    assert (await deliver(client, PUSHED)).status_code == 202
    assert waiting(registry) == 1


async def test_delivery_with_another_secret_or_none_is_401_and_notes_nothing(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    wrong = await deliver(client, PUSHED, secret=b"another")
    none = await client.post(URL, content=json.dumps(PUSHED))
    assert (wrong.status_code, none.status_code) == (401, 401)
    assert waiting(registry) == 0


async def test_replayed_delivery_is_409(client: httpx.AsyncClient, registry: Registry) -> None:
    first = await deliver(client, PUSHED)
    again = await deliver(client, PUSHED)
    other = await deliver(client, PUSHED, guid="guid-2")
    assert [answer.status_code for answer in (first, again, other)] == [202, 409, 202]


@pytest.mark.parametrize(
    ("event", "content", "guid"),
    [
        ("pull_request", {"action": "opened"}, "guid-1"),
        ("pull_request", PUSHED, "not a guid!"),
        ("pull_request", PUSHED, ""),
    ],
)
async def test_delivery_that_cannot_be_read_is_400(
    client: httpx.AsyncClient, event: str, content: dict[str, Any], guid: str
) -> None:
    assert (await deliver(client, content, event=event, guid=guid)).status_code == 400


async def test_event_of_another_kind_is_taken_and_forgotten(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    assert (await deliver(client, {"zen": "x"}, event="ping")).status_code == 202
    assert waiting(registry) == 0


async def test_registry_without_a_secret_takes_none(registry: Registry) -> None:
    registry.limit(webhook_secret=b"")
    async with registry.client() as client:
        assert (await deliver(client, PUSHED, secret=b"")).status_code == 404


async def test_claim_in_a_comment_names_who_stands_behind_a_bundle(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    made = (await registry.submit(client, example_document())).json()
    assert made["identity"] is None
    text = f"Thanks!\n/k3-eval claim {made['submission_id'][:12]}"
    await deliver(client, comment(text), event="issue_comment")
    url = f"/api/v1/submissions/{made['submission_id']}"
    claimed = (await client.get(url)).json()
    assert (claimed["identity"], claimed["space"]) == ("github:alice", "main")
    assert claimed["trust"] == "self-reported"
    await deliver(client, comment(text, "mallory"), event="issue_comment", guid="guid-2")
    assert (await client.get(url)).json()["identity"] == "github:alice"


@pytest.mark.parametrize(
    "text", ["/k3-eval claim abc", "say /k3-eval claim {}", "/k3-eval claim " + "0" * 12]
)
async def test_comment_that_claims_nothing_changes_nothing(
    client: httpx.AsyncClient, registry: Registry, text: str
) -> None:
    made = (await registry.submit(client, example_document())).json()
    text = text.replace("{}", made["submission_id"][:12])
    await deliver(client, comment(text), event="issue_comment")
    url = f"/api/v1/submissions/{made['submission_id']}"
    assert (await client.get(url)).json()["identity"] is None
