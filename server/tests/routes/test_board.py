import secrets
from datetime import timedelta
from typing import Any

import httpx

from k3server.account_ports import Scope
from k3server.adapters.sql.accounts import SqlAccounts
from k3server.bearer import make_token
from k3server_testing.example_document import example_document
from k3server_testing.registry import Registry

CHANGE = example_document().manifest.change
ASKED: dict[str, Any] = {
    **CHANGE.model_dump(),
    "tier": "smoke",
    "subject": "k3-tiny",
    "note": "On a <b>GB300</b>, please.",
}


def headers(registry: Registry, account: str, *scopes: Scope) -> dict[str, str]:
    text, token = make_token(
        account,
        scopes,
        organisation=None,
        now=registry.clock.now(),
        lifetime=timedelta(days=30),
        draw_hex=secrets.token_hex,
    )
    SqlAccounts(registry.database).add(token, "operator:x")
    return {"Authorization": f"Bearer {text}"}


async def asked(client: httpx.AsyncClient, registry: Registry) -> str:
    by = headers(registry, "maintainer", "moderate")
    answer = await client.post("/api/v1/board", json=ASKED, headers=by)
    assert answer.status_code == 200, answer.text
    return f"/api/v1/board/{answer.json()['wanted_id']}"


async def test_board_is_filled_claimed_and_released(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    address = await asked(client, registry)
    lab, other = headers(registry, "lab", "claim"), headers(registry, "other", "claim")
    claimed = await client.post(f"{address}/claim", headers=lab)
    assert (claimed.json()["state"], claimed.json()["claimed_by"]) == ("claimed", "token:lab")
    taken = await client.post(f"{address}/claim", headers=other)
    assert taken.status_code == 409
    assert "found token:lab until 2026-01-09 05:00 UTC" in taken.json()["detail"]
    assert (await client.post(f"{address}/release", headers=other)).status_code == 409
    page = (await client.get("/board")).text
    assert "token:lab" in page
    assert "On a &lt;b&gt;GB300&lt;/b&gt;, please." in page
    assert (await client.post(f"{address}/release", headers=lab)).json()["state"] == "open"
    assert (await client.post(f"{address}/claim", headers=other)).status_code == 200


async def test_a_banned_account_claims_nothing(
    client: httpx.AsyncClient, registry: Registry
) -> None:
    address = await asked(client, registry)
    lab = headers(registry, "lab", "claim")
    registry.parts().moderation.decide(
        "ban", "token:lab", actor="operator:o", reason="Forged.", at=registry.clock.now()
    )
    refused = await client.post(f"{address}/claim", headers=lab)
    assert refused.status_code == 403
    assert "banned: Forged." in refused.json()["detail"]


async def test_claim_ends_on_its_own(client: httpx.AsyncClient, registry: Registry) -> None:
    address = await asked(client, registry)
    await client.post(f"{address}/claim", headers=headers(registry, "lab", "claim"))
    registry.clock.advance(registry.settings.claim_lifetime_s)
    (wanted,) = (await client.get("/api/v1/board")).json()["wanted"]
    assert (wanted["state"], wanted["claimed_by"]) == ("open", None)


async def test_board_needs_the_right_scope(client: httpx.AsyncClient, registry: Registry) -> None:
    submitter = headers(registry, "lab", "submit")
    address = await asked(client, registry)
    answers = [
        await client.post("/api/v1/board", json=ASKED),
        await client.post("/api/v1/board", json=ASKED, headers=submitter),
        await client.post(f"{address}/claim"),
        await client.post(f"{address}/claim", headers=submitter),
    ]
    assert [answer.status_code for answer in answers] == [401, 403, 401, 403]


async def test_unknown_thing_is_404(client: httpx.AsyncClient, registry: Registry) -> None:
    lab = headers(registry, "lab", "claim")
    for act in ("claim", "release"):
        answer = await client.post(f"/api/v1/board/{'0' * 16}/{act}", headers=lab)
        assert answer.status_code == 404


async def test_empty_board_is_a_page(client: httpx.AsyncClient) -> None:
    assert "Nothing is wanted at the moment." in (await client.get("/board")).text
