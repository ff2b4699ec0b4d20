"""Who stands behind a submission: tokens, published keys, bans, and what each raises trust to."""

import secrets
from collections.abc import Sequence
from datetime import timedelta

import httpx
import pytest

from k3server.account_ports import KeysUnavailableError, Scope
from k3server.adapters.forge_keys import NoKeys
from k3server.adapters.sql.accounts import SqlAccounts
from k3server.adapters.sql.moderation import SqlModeration
from k3server.bearer import make_token
from k3server.document import SubmissionDocument
from k3server_testing.example_document import EXAMPLE_FINGERPRINT, example_document
from k3server_testing.example_verdict import example_verdict
from k3server_testing.registry import Registry

OTHER_FINGERPRINT = "SHA256:" + "B" * 43


class PublishedKeys:
    """What two accounts publish; one more cannot be asked for."""

    def fingerprints(self, account: str) -> frozenset[str]:
        if account == "away":
            raise KeysUnavailableError("The forge does not answer.")
        return frozenset({"alice": {EXAMPLE_FINGERPRINT}, "bob": {OTHER_FINGERPRINT}}[account])


def token(
    registry: Registry, account: str, scopes: Sequence[Scope] = ("submit",), days: float = 1
) -> str:
    text, made = make_token(
        account,
        scopes,
        organisation=None,
        now=registry.clock.now(),
        lifetime=timedelta(days=days),
        draw_hex=secrets.token_hex,
    )
    SqlAccounts(registry.database).add(made, "operator:x")
    return text


def run(number: int, signer: str = EXAMPLE_FINGERPRINT) -> SubmissionDocument:
    document = example_document(run_id=f"{number:032x}")
    return document.model_copy(update={"signer_fingerprint": signer})


def standing(answer: httpx.Response) -> tuple[str, str, str | None]:
    body = answer.json()
    return body["space"], body["trust"], body["identity"]


@pytest.fixture
def registry(registry: Registry) -> Registry:
    registry.keys = PublishedKeys()
    return registry


async def test_anonymous_submission_is_in_the_playground_only(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    answer = await registry.submit(client, run(1))
    assert standing(answer) == ("playground", "self-reported", None)
    front = (await client.get("/")).text
    latest, playground = front.split('id="playground"')
    digest = answer.json()["submission_id"]
    assert digest not in latest
    assert digest in playground
    assert digest in (await client.get("/playground")).text
    pull = (await client.get("/example/engine/pull/7")).text
    assert "Nobody is known to stand behind" in pull


async def test_key_that_the_account_publishes_makes_it_signed(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    answer = await registry.submit(client, run(1), github_account="alice")
    assert standing(answer) == ("main", "signed", "github:alice")


async def test_key_that_the_account_does_not_publish_is_refused(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    answer = await registry.submit(client, run(1), github_account="bob")
    assert answer.status_code == 422
    (finding,) = answer.json()["findings"]
    assert finding["code"] == "key-not-published"
    assert EXAMPLE_FINGERPRINT in finding["why"]
    assert registry.index.every(limit=9) == ()


async def test_keys_that_cannot_be_asked_for_are_503_and_nothing_is_lost(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    answer = await registry.submit(client, run(1), github_account="away")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    again = await registry.submit(client, run(1), github_account="alice")
    assert again.status_code == 201


async def test_account_at_a_registry_that_asks_none_is_refused_for_good(registry: Registry) -> None:
    registry.keys = NoKeys()
    async with registry.client() as client:
        answer = await registry.submit(client, run(1), github_account="alice")
    assert answer.status_code == 422
    (finding,) = answer.json()["findings"]
    assert finding["code"] == "accounts-not-asked"
    assert "was not told where to ask for the keys of alice" in finding["why"]
    assert registry.index.every(limit=9) == ()


async def test_sending_again_with_an_account_leaves_the_playground(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    await registry.submit(client, run(1))
    answer = await registry.submit(client, run(1), github_account="alice")
    assert answer.status_code == 200
    assert standing(answer) == ("main", "signed", "github:alice")
    assert len(registry.verifier.asked) == 1


async def test_token_names_the_account_and_a_second_one_changes_nothing(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    first = await registry.submit(client, run(1), token=token(registry, "lab"))
    second = await registry.submit(client, run(1), token=token(registry, "thief"))
    assert standing(first) == standing(second) == ("main", "self-reported", "token:lab")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("nonsense", 401),
        ("k3r_" + "0" * 16 + "_" + "0" * 64, 401),
        ("wrong scope", 403),
        ("expired", 401),
        ("revoked", 401),
    ],
)
async def test_token_that_does_not_work_is_refused_before_anything_is_verified(
    client: httpx.AsyncClient, registry: Registry, text: str, status: int
) -> None:
    if text == "wrong scope":
        text = token(registry, "lab", ["claim"])
    elif text == "expired":
        text = token(registry, "lab", days=0)
    elif text == "revoked":
        text = token(registry, "lab")
        SqlAccounts(registry.database).revoke(text.split("_")[1], "x", registry.clock.now())
    answer = await registry.submit(client, run(1), token=text)
    assert answer.status_code == status
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert registry.verifier.asked == []


async def test_banned_signer_and_banned_account_are_refused_with_the_reason(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    moderation = SqlModeration(registry.database)
    for banned in (f"key:{OTHER_FINGERPRINT}", "token:mallory"):
        moderation.decide(
            "ban", banned, actor="operator:x", reason="Forged.", at=registry.clock.now()
        )
    by_key = await registry.submit(client, run(1, OTHER_FINGERPRINT))
    by_account = await registry.submit(client, run(2), token=token(registry, "mallory"))
    fine = await registry.submit(client, run(3))
    assert [answer.status_code for answer in (by_key, by_account, fine)] == [403, 403, 201]
    assert "Forged." in by_key.json()["detail"]


async def test_independent_run_that_agrees_makes_both_reproduced(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    first = await registry.submit(client, run(1), github_account="alice")
    assert first.json()["trust"] == "signed"
    second = await registry.submit(client, run(2, OTHER_FINGERPRINT), github_account="bob")
    assert second.json()["trust"] == "reproduced"
    url = f"/api/v1/submissions/{first.json()['submission_id']}"
    assert (await client.get(url)).json()["trust"] == "reproduced"


async def test_own_second_run_and_anonymous_runs_reproduce_nothing(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    answers = [
        await registry.submit(client, run(1), github_account="alice"),
        await registry.submit(client, run(2), github_account="alice"),
        await registry.submit(client, run(3), token=token(registry, "lab")),
        await registry.submit(client, run(4, OTHER_FINGERPRINT)),
    ]
    assert [answer.json()["trust"] for answer in answers] == [
        "signed",
        "signed",
        "self-reported",
        "self-reported",
    ]


async def test_retraction_is_for_the_own_account_and_for_moderators(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    own = token(registry, "lab")
    made = await registry.submit(client, run(1), token=own)
    url = f"/api/v1/submissions/{made.json()['submission_id']}/retraction"

    async def retract(text: str | None) -> httpx.Response:
        headers = {} if text is None else {"Authorization": f"Bearer {text}"}
        return await client.post(url, json={"reason": "Wrong driver."}, headers=headers)

    assert (await retract(None)).status_code == 401
    assert (await retract(token(registry, "other"))).status_code == 403
    answer = await retract(own)
    assert (answer.json()["state"], answer.json()["reason"]) == ("retracted", "Wrong driver.")
    moderator = token(registry, "operator", ["submit", "moderate"])
    assert (await retract(moderator)).status_code == 200
    page = await client.get(f"/submissions/{made.json()['submission_id']}")
    assert "Retracted: Wrong driver." in page.text


async def test_pull_page_leads_with_what_was_not_taken_back(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    await registry.submit(client, run(1), github_account="alice")
    own = token(registry, "lab")
    failed = example_document(example_verdict("FAIL"), run_id="2" * 32)
    made = (await registry.submit(client, failed, token=own)).json()
    assert 'class="verdict fail"' in (await client.get("/example/engine/pull/7")).text
    await client.post(
        f"/api/v1/submissions/{made['submission_id']}/retraction",
        json={"reason": "Wrong driver."},
        headers={"Authorization": f"Bearer {own}"},
    )
    page = (await client.get("/example/engine/pull/7")).text
    assert 'class="verdict pass"' in page
    assert made["submission_id"] in page


async def test_quarantined_submission_is_shown_nowhere(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    made = (await registry.submit(client, run(1), github_account="alice")).json()
    digest = made["submission_id"]
    SqlModeration(registry.database).decide(
        "quarantine", digest, actor="operator:x", reason="A secret in it.", at=registry.clock.now()
    )
    for url in (
        f"/submissions/{digest}",
        f"/api/v1/submissions/{digest}",
        f"/api/v1/submissions/{digest}/bundle",
    ):
        answer = await client.get(url)
        assert answer.status_code == 403
        assert "A secret in it." in answer.text
        assert made["sentence"] not in answer.text
    assert digest not in (await client.get("/")).text
